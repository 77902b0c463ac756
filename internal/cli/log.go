package cli

import (
	"fmt"
	"io"
	"os"
	goruntime "runtime"
	"strings"

	"github.com/sirupsen/logrus"
	"github.com/urfave/cli"

	"github.com/sage-sandbox/sage/internal/errcode"
)

// configureLog sets up logrus, which libcontainer logs through as well. The
// form of the records is part of runc's contract: containerd reads the last
// error from the JSON log.
func configureLog(ctx *cli.Context) error {
	if ctx.GlobalBool("debug") {
		logrus.SetLevel(logrus.DebugLevel)
		logrus.SetReportCaller(true)
		logrus.SetFormatter(&logrus.TextFormatter{CallerPrettyfier: shortCaller})
	}
	switch format := ctx.GlobalString("log-format"); format {
	case "", "text":
	case "json":
		logrus.SetFormatter(new(logrus.JSONFormatter))
	default:
		return fmt.Errorf("invalid log-format: %s", format)
	}
	path := ctx.GlobalString("log")
	if path == "" {
		return nil
	}
	// Records of several processes meet in this file: each is one appending write.
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	logrus.SetOutput(f)
	return nil
}

// shortCaller drops the folders of the machine that built the binary.
func shortCaller(f *goruntime.Frame) (function, file string) {
	name := f.Function[strings.LastIndexByte(f.Function, '/')+1:]
	return name + "()", f.File[strings.LastIndexByte(f.File, '/')+1:] + fmt.Sprintf(":%d", f.Line)
}

// logError tells a failure to the log and, if that is elsewhere, to stderr.
func logError(err error, stderr *os.File) {
	entry := logrus.NewEntry(logrus.StandardLogger())
	if code := errcode.Of(err); code != "" {
		entry = entry.WithField("code", string(code))
	}
	entry.Error(err)
	if !logsTo(stderr) {
		fmt.Fprintln(stderr, err)
	}
}

// errorLog brings errors that urfave/cli prints by itself to the log too.
type errorLog struct{ stderr *os.File }

var _ io.Writer = errorLog{}

func (l errorLog) Write(p []byte) (int, error) {
	logrus.Error(strings.TrimRight(string(p), "\n"))
	if logsTo(l.stderr) {
		return len(p), nil
	}
	return l.stderr.Write(p)
}

// logsTo says whether the log goes to f, so that nothing is told there twice.
func logsTo(f *os.File) bool { return logrus.StandardLogger().Out == io.Writer(f) }

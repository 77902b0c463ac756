//go:build k8s

package k8s

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"time"
)

// api asks the API server directly where it is not kubectl that counts: that
// takes seconds to begin in emulation.
type api struct{ client *http.Client }

var errNotFound = errors.New("not found")

func newAPI(certificate string) (*api, error) {
	text, err := os.ReadFile(certificate)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s: saw no certificate", certificate)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	return &api{&http.Client{Transport: transport, Timeout: 30 * time.Second}}, nil
}

// get reads an object; nil is for asking whether it is there. It asks again where
// no answer came: an emulated machine that starts three pods has none at times.
func (a *api) get(path string, into any) (err error) {
	for range 3 {
		var silent *url.Error
		if err = a.send(http.MethodGet, path, nil, into); !errors.As(err, &silent) {
			return err
		}
	}
	return err
}

// post makes an object in a collection.
func (a *api) post(path string, o object) error {
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return a.send(http.MethodPost, path, text, nil)
}

func (a *api) delete(path string) error { return a.send(http.MethodDelete, path, nil, nil) }

func (a *api) send(method, path string, body []byte, into any) error {
	request, err := http.NewRequest(method, "https://127.0.0.1:6443"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/json")
	answer, err := a.client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	switch {
	case err != nil:
		return err
	case answer.StatusCode == http.StatusNotFound:
		return errNotFound
	case answer.StatusCode >= http.StatusMultipleChoices:
		return fmt.Errorf("%s %s: %s: %s", method, path, answer.Status, text)
	case into == nil:
		return nil
	}
	return json.Unmarshal(text, into)
}

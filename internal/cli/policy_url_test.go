package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"
)

// TestPolicyTest: the status and the words for allow and deny.
func TestPolicyTest(t *testing.T) {
	config := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(config, []byte("version: 1\nprofiles: {ci: {extends: agent, defaults: {network: {mode: allowlist, allowed_hosts: [a.example]}}}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		args   string
		status int
		out    string // part of what is printed, for people or in the log
	}{
		{"--profile ci https://a.example", 0, "allow https://a.example:443, rule a.example; the address is checked when it is dialled\n"},
		{"--profile ci https://a.example https://b.example", 1, "deny  https://b.example:443: no rule of the policy allows this host [sandbox.egress_host_denied]\n"},
		{"--profile ci --json https://b.example", 1, `"code": "sandbox.egress_host_denied"`},
		{"--profile ci -a network.denied_hosts=a.example https://a.example", 1, "rule a.example: the policy denies this host"},
		{"--profile ci -a sage.sandbox.network.mode=none -a network.allowed_hosts=[] https://a.example", 1, "the policy allows no network"},
		{"--profile ci -a network.allowed_hosts=b.example https://b.example", 1, "sandbox.limit_exceeded"},
		{"--profile ci -a network.mode https://a.example", 1, "want KEY=VALUE"},
		{"--profile sage https://a.example", 1, "the policy allows no network"},
		{"--profile nobody https://a.example", 1, "sandbox.profile_unavailable"},
		{"--profile ci --bundle . https://a.example", 1, "want one"},
		{"--bundle /nonexistent https://a.example", 1, "no such file"},
		{"--profile ci", 1, "requires a minimum of 1 argument"},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			status, text := run(t, append([]string{"sage-runtime", "--config", config, "policy", "test"}, strings.Fields(tt.args)...))
			if status != tt.status || !strings.Contains(text, tt.out) {
				t.Errorf("got status %d and\n%s\nwant %d and %q", status, text, tt.status, tt.out)
			}
		})
	}
	status, text := run(t, []string{"sage-runtime", "--config", config, "policy", "--profile", "ci", "--json"})
	if status > 1 || !json.Valid([]byte(text)) {
		t.Errorf("policy itself, with a command below it: got status %d and\n%s", status, text)
	}
}

// run carries out a command line, and returns all that it prints.
func run(t *testing.T, args []string) (status int, text string) {
	t.Helper()
	file, err := os.OpenFile(filepath.Join(t.TempDir(), "out"), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	t.Cleanup(func() { logrus.SetOutput(os.Stderr) })
	status = Run(Env{In: os.Stdin, Out: file, Err: file, LookupEnv: func(string) (string, bool) { return "", false }}, args)
	data, err := os.ReadFile(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	return status, string(data)
}

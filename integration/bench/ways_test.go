package main

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

// started plays a role as a process would, until the test ends.
func started(t *testing.T, name string, args ...string) (in io.Writer, out *bufio.Reader) {
	t.Helper()
	stdin, input := io.Pipe()
	output, stdout := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- roles[name](args, stdin, stdout) }()
	t.Cleanup(func() {
		_ = input.Close()
		if err := <-done; err != nil {
			t.Errorf("%s: %v", name, err)
		}
	})
	return input, bufio.NewReader(output)
}

func TestRoles(t *testing.T) {
	_, said := started(t, "origin")
	var port, names string
	if _, err := fmt.Fscan(said, &port, &names); err != nil {
		t.Fatal(err)
	}
	_, said = started(t, "relay", "127.0.0.1:"+port)
	var relayed string
	if _, err := fmt.Fscan(said, &relayed); err != nil {
		t.Fatal(err)
	}
	ask, said := started(t, "client", "127.0.0.1:"+relayed, "")
	for what, want := range map[string]int{"requests 3 0": 3, "crowd 2 4": 1, "pour 2 0": 1} {
		if _, err := fmt.Fprintln(ask, what); err != nil {
			t.Fatal(err)
		}
		line, err := said.ReadString('\n')
		if err != nil || len(strings.Fields(line)) != want {
			t.Errorf("%s: said %q, %v; want %d numbers", what, line, err, want)
		}
	}
	if play([]string{"nobody"}) == nil {
		t.Error("a role that there is not: got no error")
	}
}

// TestPromises has each promise kept by the least that it may, and broken by a
// little more.
func TestPromises(t *testing.T) {
	made := func(request time.Duration, pour, crowd float64, idle int) *way {
		return &way{requests: []time.Duration{request}, pours: []float64{pour}, crowds: []float64{crowd}, idle: idle}
	}
	direct, relay, peer := made(1000, 1000, 1000, 0), made(1200, 1000, 900, 0), made(2000, 700, 500, 18<<10)
	for _, tt := range []struct {
		sage *way
		want bool
	}{{made(1700, 900, 600, 10<<10), true}, {made(1701, 899, 599, 10<<10+1), false}} {
		for _, p := range promises(direct, relay, peer, tt.sage) {
			if p.holds != tt.want {
				t.Errorf("%s, %s: holds %v, want %v", p.what, p.measured, p.holds, tt.want)
			}
		}
	}
	var out strings.Builder
	relay.name, direct.name, peer.name = "relay", "direct", "smokescreen"
	sage := made(1700, 900, 600, 1)
	sage.name = "sage"
	printWays(&out, []*way{direct, relay, peer, sage})
	if strings.Count(out.String(), "| holds |") != 4 {
		t.Errorf("saw\n%s", out.String())
	}
}

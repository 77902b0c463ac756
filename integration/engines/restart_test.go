//go:build engines

package engines

import "testing"

// TestContainerdKilled kills containerd while containers run. They and their
// shims belong to nobody then, and the next containerd has to find them by what
// the shims have written down. dockerd connects anew by itself.
func TestContainerdKilled(t *testing.T) {
	needDockerd(t)
	var tasks []string
	for _, w := range ctrWays {
		tasks = append(tasks, newCtr(t, w.way()).idle(t))
	}
	dockers := []docker{newDocker(t, "sage"), newDocker(t, "sage-shim")}
	var ids []string
	for _, d := range dockers {
		ids = append(ids, d.idle(t))
	}
	if err := theRing.killContainerd(); err != nil {
		t.Fatal(err)
	}
	for i, w := range ctrWays {
		t.Run(w.name, func(t *testing.T) { ctrFoundAgain(t, newCtr(t, w.way()), tasks[i]) })
	}
	for i, d := range dockers {
		t.Run("docker "+d.runtime, func(t *testing.T) { dockerFoundAgain(t, d, ids[i]) })
	}
}

func ctrFoundAgain(t *testing.T, c ctr, id string) {
	c.awaitStatus(t, id, "RUNNING")
	c.exec(t, nil, id, "sh", "-c", "exit 5").want(t, 5)
	c.must(t, "tasks", "kill", "--signal=KILL", id)
	c.awaitStatus(t, id, "STOPPED")
	c.deleted(t, id, 137)
	wantNothingOf(t, []string{id})
}

func dockerFoundAgain(t *testing.T, d docker, id string) {
	eventually(t, "exec after the restart", "entered\n", func() string {
		return d.try(t, "exec", id, "echo", "entered").out
	})
	d.must(t, "stop", id)
	d.awaitField(t, id, ".State.ExitCode", "0")
	d.must(t, "rm", id)
	wantNothingOf(t, []string{id})
}

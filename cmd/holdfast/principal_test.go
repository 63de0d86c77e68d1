package main

import (
	"strings"
	"testing"
)

// The principal comes from the flag, or else from the environment, and every call carries it. An invalid name is a
// usage error.
func TestPrincipal(t *testing.T) {
	n := startNode(t)
	for _, tt := range []struct{ variable, flag, want string }{
		{"", "", ""}, {"nightly", "", "nightly"}, {"nightly", "team a", "team a"},
	} {
		t.Setenv(principalVariable, tt.variable)
		args := []string{"session", "ls"}
		if tt.flag != "" {
			args = append(args, "--principal", tt.flag)
		}
		if code, _, stderr := execute(t, "", args...); code != exitDone {
			t.Fatalf("%v: exit %d: %s", args, code, stderr)
		}
		n.mu.Lock()
		if n.principal != tt.want {
			t.Errorf("%+v: the node was told %q", tt, n.principal)
		}
		n.mu.Unlock()
	}
	code, _, stderr := execute(t, "", "session", "ls", "--principal", "a\tb")
	if code != exitUsage || !strings.Contains(stderr, "principal") {
		t.Errorf("exit %d: %s", code, stderr)
	}
}

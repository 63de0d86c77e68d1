package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// systemd takes the unit without a word. An unknown key alone does not make its check fail: it is a warning.
func TestUnit(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("there is no systemd-analyze here (Debian: systemd)")
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "holdfast-node") // the check wants it to be there
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	verify := func(text string) string {
		unit := filepath.Join(dir, "holdfast.service")
		if err := os.WriteFile(unit, []byte(strings.ReplaceAll(text, "/usr/bin/holdfast-node", program)), 0o644); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("systemd-analyze", "verify", "--man=no", unit).CombinedOutput()
		if err != nil {
			return string(out) + err.Error()
		}
		return string(out)
	}
	text := read(t, "../../deploy/systemd/holdfast.service")
	if said := verify(text); said != "" {
		t.Errorf("systemd-analyze verify: %s", said)
	}
	if said := verify(strings.Replace(text, "WatchdogSec=", "WatchdogSecs=", 1)); said == "" {
		t.Error("the check does not see a key that systemd does not know")
	}
}

package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// systemd takes the units without a word: that of deploy/systemd, and the one that docs/cli.md shows. An unknown key
// alone does not make its check fail: it is a warning.
func TestUnits(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("%v: CI must run this test (Debian: systemd)", err)
		}
		t.Skipf("%v (Debian: systemd)", err)
	}
	for _, unit := range []struct {
		name, text string
		programs   []string
		// key is one of the unit's.
		key string
	}{
		{
			"holdfast.service", read(t, "../../deploy/systemd/holdfast.service"),
			[]string{"/usr/bin/holdfast-node"},
			"WatchdogSec=",
		},
		{
			"backup.service", shownIn(t, "../../docs/cli.md", "ini"),
			[]string{"/usr/bin/holdfast", "/usr/local/bin/backup"},
			"KillMode=",
		},
	} {
		t.Run(unit.name, func(t *testing.T) {
			dir := t.TempDir()
			text := withPrograms(t, dir, unit.text, unit.programs)
			if said := verify(t, filepath.Join(dir, unit.name), text); said != "" {
				t.Errorf("systemd-analyze verify: %s", said)
			}
			unknown := strings.Replace(text, unit.key, "Un"+unit.key, 1)
			if said := verify(t, filepath.Join(dir, unit.name), unknown); !strings.Contains(said, "Un"+unit.key[:4]) {
				t.Errorf("the check does not see a key that systemd does not know: %s", said)
			}
		})
	}
}

// withPrograms makes the programs of a unit in a directory, and names them there: systemd wants them to be there.
func withPrograms(t *testing.T, dir, text string, programs []string) string {
	t.Helper()
	for _, path := range programs {
		if !strings.Contains(text, path+" ") && !strings.Contains(text, path+"\n") {
			t.Fatalf("the unit does not run %s:\n%s", path, text)
		}
		here := filepath.Join(dir, filepath.Base(path))
		if err := os.WriteFile(here, []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		text = strings.ReplaceAll(text, path, here)
	}
	return text
}

// verify returns what systemd says about a unit, and nothing if it is content.
func verify(t *testing.T, file, text string) string {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("systemd-analyze", "verify", "--man=no", file).CombinedOutput()
	if err != nil {
		return string(out) + err.Error()
	}
	return string(out)
}

// shownIn returns the only block of a language in a page.
func shownIn(t *testing.T, page, language string) string {
	t.Helper()
	parts := strings.Split(read(t, page), "\n```"+language+"\n")
	if len(parts) != 2 {
		t.Fatalf("%s has %d blocks of %s, want one", page, len(parts)-1, language)
	}
	text, _, _ := strings.Cut(parts[1], "```")
	return text
}

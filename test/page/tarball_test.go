package page

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestTheTarballInstalls types what docs/operations/install.md says for a machine with systemd, up to the start of the
// unit. Directories of the system are below one of the test.
func TestTheTarballInstalls(t *testing.T) {
	release := os.Getenv("RELEASE")
	if release == "" {
		t.Skip("make release-check, a part of make proof, runs this with the release that it has made")
	}
	p := Open(t)
	tarballs, err := filepath.Glob(filepath.Join(release, "holdfast-*-linux-amd64.tar.gz"))
	if err != nil || len(tarballs) != 1 {
		t.Fatalf("%s has %q: %v", release, tarballs, err)
	}
	of := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(tarballs[0]), "holdfast-"), "-linux-amd64.tar.gz")
	dir := filepath.Join(t.TempDir(), "dist")
	if err = os.CopyFS(dir, os.DirFS(release)); err != nil {
		t.Fatal(err)
	}
	system := t.TempDir()
	for _, there := range []string{"usr/bin", "etc/systemd/system"} {
		if err = os.MkdirAll(filepath.Join(system, there), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	commands := strings.NewReplacer("-V-", "-"+of+"-", " /usr/", " "+system+"/usr/", " /etc/", " "+system+"/etc/").
		Replace(p.Block("install the tarball"))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", commands+p.Inline("go version holdfast-node")+"\n"+
		filepath.Join(system, "usr/bin/holdfast")+" version\n")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "holdfast-node: go1.") {
		t.Fatalf("%v\n%s\n%s", err, commands, out)
	}
	for _, want := range []string{
		"usr/bin/holdfast-node", "usr/bin/holdfast", "usr/share/doc/holdfast/operations.md",
		"usr/share/doc/holdfast/operations/runbooks.md",
		"etc/systemd/system/holdfast.service", "etc/holdfast",
	} {
		if _, err := os.Stat(filepath.Join(system, want)); err != nil {
			t.Error(err)
		}
	}
}

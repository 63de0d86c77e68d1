package fuzz

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Each target keeps inputs, which go test runs; what is kept is some target's, not that of one that has another name
// now; and the document counts the targets.
func TestTargetsKeepInputs(t *testing.T) {
	targets, kept := targetsAndKept(t, "../..")
	for _, name := range targets {
		if !slices.Contains(kept, name) {
			t.Errorf("%s keeps no inputs: choose some of those that it finds", name)
		}
	}
	for _, name := range kept {
		if !slices.Contains(targets, name) {
			t.Errorf("%s is the inputs of no target", name)
		}
	}
	b, err := os.ReadFile("../../docs/testing.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("\n| fuzzing | %d targets: ", len(targets)); !strings.Contains(string(b), want) {
		t.Errorf("docs/testing.md does not say %q", strings.TrimSpace(want))
	}
}

// targetsAndKept returns the targets below root, each as the directory that it keeps its inputs in, and the directories
// in which inputs are kept.
func targetsAndKept(t *testing.T, root string) (targets, kept []string) {
	t.Helper()
	target := regexp.MustCompile(`(?m)^func (Fuzz\w+)\(`)
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && strings.HasPrefix(entry.Name(), "."):
			return fs.SkipDir
		case entry.IsDir():
			return nil
		}
		directory := filepath.Dir(path)
		if filepath.Base(filepath.Dir(directory)) == "fuzz" && strings.Contains(directory, "testdata") {
			if !slices.Contains(kept, directory) {
				kept = append(kept, directory)
			}
			return nil
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		b, err := os.ReadFile(path)
		for _, found := range target.FindAllStringSubmatch(string(b), -1) {
			targets = append(targets, filepath.Join(directory, "testdata", "fuzz", found[1]))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return targets, kept
}

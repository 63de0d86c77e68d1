package fuzz

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Each target keeps inputs for go test to run, and no inputs are left of a target that was renamed.
func TestTargetsKeepInputs(t *testing.T) {
	targets, kept := targetsAndKept(t, "../..")
	for _, name := range targets {
		if !slices.Contains(kept, name) {
			t.Errorf("%s keeps no inputs: fuzz the target, and check in some of the inputs that it finds", name)
		}
	}
	for _, name := range kept {
		if !slices.Contains(targets, name) {
			t.Errorf("%s holds inputs of no target: rename or delete it", name)
		}
	}
}

// targetsAndKept returns the targets below root, each as the directory that its inputs belong in, and the directories
// that hold inputs.
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

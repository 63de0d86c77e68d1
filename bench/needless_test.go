package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"holdfast/bench/table"
)

// TestNeedless stops nodes of two clusters for a moment, a few times, and counts. How many terms that costs depends on
// the machine, so it is not judged here.
func TestNeedless(t *testing.T) {
	dir := t.TempDir()
	program, results := filepath.Join(dir, "node"), filepath.Join(dir, "results.json")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./cmd/node")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the node: %v\n%s", err, out)
	}
	args := []string{
		"-works", "needless", "-peers", program, "-runs", "1", "-json", results, "-dir", dir, "-for", "1s", "-every", "100ms",
		"-stop", "10ms", "-loops", "1", "-clusters", "2",
	}
	if err := run(t.Context(), args, t.Output(), t.Output()); err != nil {
		t.Fatal(err)
	}
	read, err := os.ReadFile(results)
	if err != nil {
		t.Fatal(err)
	}
	var got table.Results
	if err := json.Unmarshal(read, &got); err != nil || len(got.Runs) != 1 {
		t.Fatalf("%d runs, %v", len(got.Runs), err)
	}
	r := got.Runs[0]
	if _, counted := r.Figures["needless_terms"]; r.Err != "" || !counted || r.Figures["needless_stops"] < 2 ||
		r.Figures["needless_hours"] < 12.0/3600 {
		t.Errorf("error %q, figures %v: want two stops at least in two clusters, 6 s each", r.Err, r.Figures)
	}
}

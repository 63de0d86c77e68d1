package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/bench/play"
	"holdfast/bench/table"
)

// TestZooPort plays the works of ZooKeeper's clients without long waits, small, at three nodes. Times are not
// judged here. A session that is lost is.
func TestZooPort(t *testing.T) {
	dir := t.TempDir()
	program, results := filepath.Join(dir, "node"), filepath.Join(dir, "results.json")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./cmd/node")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the node: %v\n%s", err, out)
	}
	const works = "zk-requests,zk-connects,zk-leader-killed,zk-node-killed"
	args := []string{
		"-works", works, "-peers", "zk:" + program, "-runs", "1", "-json", results, "-dir", dir, "-scale", "0.02",
	}
	if err := run(t.Context(), args, t.Output(), t.Output()); err != nil {
		t.Fatal(err)
	}
	read, err := os.ReadFile(results)
	if err != nil {
		t.Fatal(err)
	}
	var got table.Results
	if err := json.Unmarshal(read, &got); err != nil || len(got.Runs) != strings.Count(works, ",")+1 {
		t.Fatalf("%d runs, %v", len(got.Runs), err)
	}
	for _, r := range got.Runs {
		if r.Err != "" {
			t.Errorf("%s: %s", r.Work, r.Err)
		}
		for key, v := range r.Figures {
			if lost := strings.HasSuffix(key, "_lost"); lost && v != 0 || strings.HasSuffix(key, "_rate") && v <= 0 {
				t.Errorf("%s: %s is %v", r.Work, key, v)
			}
		}
		for _, f := range chosen(t, r.Work).Figures {
			if _, there := r.Figures[f.Key]; !there {
				t.Errorf("%s: no figure %s", r.Work, f.Key)
			}
		}
	}
}

func chosen(t *testing.T, name string) play.Work {
	t.Helper()
	works, err := choose(name)
	if err != nil {
		t.Fatal(err)
	}
	return works[0]
}

// Works that are played only when they are named are not among all.
func TestChooseLeavesOut(t *testing.T) {
	all, err := choose("")
	if err != nil || len(all) == 0 {
		t.Fatalf("%d works, %v", len(all), err)
	}
	for _, w := range all {
		if w.Name == "needless" || strings.HasPrefix(w.Name, "zk-") {
			t.Errorf("%s is played though it was not named", w.Name)
		}
	}
}

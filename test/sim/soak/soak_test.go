package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/test/sim/check"
	"holdfast/test/sim/faults"
	"holdfast/test/sim/stats"
)

// pretends is set in processes of this test's own binary that pretend to be the simulation. Its value is a JSON object
// of seeds with what each does.
const pretends = "SOAK_PRETENDS"

func TestMain(m *testing.M) {
	if plan := os.Getenv(pretends); plan != "" {
		os.Exit(pretend(plan))
	}
	os.Exit(m.Run())
}

// pretend runs seeds like the simulation's binary: "fail", "crash", "hang", "die" without output, "leave" something
// behind that ends the process afterwards; all others pass.
func pretend(plan string) int {
	var does map[string]string
	if err := json.Unmarshal([]byte(plan), &does); err != nil {
		panic(err)
	}
	path := os.Getenv("SIM_REPORT")
	from, _ := strconv.ParseUint(os.Getenv("FROM"), 10, 64)
	seeds, _ := strconv.ParseUint(os.Getenv("SEEDS"), 10, 64)
	code := 0
	for seed := from; seed < from+seeds; seed++ {
		begun := &stats.Report{Seed: seed, Nodes: 3, Begun: true}
		if err := begun.Append(path); err != nil {
			panic(err)
		}
		r := stats.New(seed, 3)
		r.Virtual, r.Faults["kill"], r.Checked["I1"] = time.Minute, 1, 1
		switch does[fmt.Sprint(seed)] {
		case "fail":
			r.Failures, code = []string{"I3 violated"}, 1
		case "crash":
			panic("as planned")
		case "hang":
			time.Sleep(time.Hour)
		case "die":
			return 3
		default:
			r.Hit["kill"] = 1
		}
		if err := r.Append(path); err != nil {
			panic(err)
		}
		if does[fmt.Sprint(seed)] == "leave" {
			panic("left behind")
		}
	}
	return code
}

// soaked runs a soak over pretended seeds. It returns the output and the summary.
func soaked(t *testing.T, does map[string]string, args ...string) (string, record, error) {
	t.Helper()
	plan, err := json.Marshal(does)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(pretends, string(plan))
	dir := t.TempDir()
	file := filepath.Join(dir, "soak.json")
	var stdout, stderr bytes.Buffer
	args = append(
		[]string{
			"-binary", os.Args[0], "-workers", "2", "-batch", "4", "-json", file, "-artifacts",
			filepath.Join(dir, "kept"),
		}, args...,
	)
	ran := run(t.Context(), args, &stdout, &stderr)
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err, ran, stderr.String())
	}
	r := record{Sum: stats.NewSum()}
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "kept", "*")); err != nil || (ran == nil) != (len(left) == 0) {
		t.Errorf("kept: %v, %v; want something if and only if a seed failed", left, err)
	}
	return stdout.String(), r, ran
}

func TestSoakRunsAllSeeds(t *testing.T) {
	text, r, err := soaked(t, nil, "-seeds", "10", "-from", "5")
	if err != nil {
		t.Error(err)
	}
	if r.Seeds != 10 || r.From != 5 || r.Next != 15 || r.Virtual != 10*time.Minute || r.Faults["kill"] != 10 ||
		r.Checked["I1"] != 10 {
		t.Errorf("got %+v %+v", r, r.Sum)
	}
	for _, want := range []string{"seeds", "virtual hours", "kill", "I1"} {
		if !strings.Contains(text, want) {
			t.Errorf("the summary lacks %q:\n%s", want, text)
		}
	}
}

// TestSoakSurvivesItsProcesses shows that a seed that fails, crashes, hangs, ends without output or leaves something
// behind is one failure, and that the other seeds of its process run all the same.
func TestSoakSurvivesItsProcesses(t *testing.T) {
	text, r, err := soaked(t, map[string]string{"2": "fail", "3": "crash", "6": "hang", "9": "leave", "11": "die"},
		"-seeds", "12",
		"-batch", "2", "-timeout", "3s")
	if !errors.Is(err, errFailed) {
		t.Errorf("got %v, want a failure", err)
	}
	if r.Seeds != 12 || r.Next != 13 || len(r.Failures) != 5 {
		t.Errorf("%d seeds ran, next is %d, %d failed: want all 12, and 5 failures:\n%s", r.Seeds, r.Next,
			len(r.Failures), text)
	}
	for _, want := range []string{
		"seed 2: I3 violated", "seed 3: the process crashed", "panic: as planned",
		"seed 6: the process crashed or hung", "seed 9: the process crashed", "panic: left behind", "seed 11: ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the summary lacks %q:\n%s", want, text)
		}
	}
}

func TestSoakDemandsThatEverythingIsPutToTheTest(t *testing.T) {
	s := newSoak(options{from: 1, seeds: enoughForRare}, "", nil)
	s.sum.Seeds = enoughForRare
	reads := stats.Reads(session.ModeReadOnly)
	s.sum.Counts[stats.Installed], s.sum.Counts[reads], s.sum.Counts[stats.Reads(session.ModeReadWrite)] = 1, 1, 1
	for _, kind := range faults.Kinds() {
		s.sum.Faults[kind.String()], s.sum.Hit[kind.String()] = 1, 1
	}
	for _, name := range append(check.Names(), check.RareNames()...) {
		s.sum.Checked[name] = 1
	}
	if err := s.verdict(t.Context()); err != nil {
		t.Fatal(err)
	}
	for what, counts := range map[string]map[string]int{
		faults.Kill.String(): s.sum.Hit, "I8": s.sum.Checked, "I2 owner lost": s.sum.Checked,
		stats.Installed: s.sum.Counts,
		reads:           s.sum.Counts,
	} {
		delete(counts, what)
		words := strings.TrimPrefix(strings.TrimPrefix(what, "snapshots "), "reads: ")
		if err := s.verdict(t.Context()); !errors.Is(err, errFailed) || !strings.Contains(err.Error(), words) {
			t.Errorf("without %s: got %v, want an error that names it", what, err)
		}
		counts[what] = 1
	}
	s.sum.Seeds = enough
	delete(s.sum.Checked, "I2 owner lost")
	if err := s.verdict(t.Context()); err != nil {
		t.Errorf("what is rare is missed over %d seeds: %v", enough, err)
	}
	delete(s.sum.Checked, "I8")
	if err := s.verdict(t.Context()); !errors.Is(err, errFailed) {
		t.Errorf("over %d seeds without I8: got %v", enough, err)
	}
}

func TestSoakSaysWhereToGoOn(t *testing.T) {
	s := newSoak(options{from: 10, seeds: 100}, "", nil)
	for _, seed := range []uint64{10, 11, 13} {
		s.note(outcome{reports: []stats.Report{{Seed: seed}}})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.verdict(ctx); !errors.Is(err, errInterrupted) || !strings.Contains(err.Error(), "-from 12") {
		t.Errorf("got %v, want to continue with 12, the first that has not run", err)
	}
}

func TestLineSaysHowFarItIs(t *testing.T) {
	got := state{seeds: 25, failures: 1, virtual: 3 * time.Hour, wall: time.Minute}.line(100)
	if want := "soak: 25 of 100 seeds, 1 failed, 3.0 virtual hours in 1m0s, about 3m0s left"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

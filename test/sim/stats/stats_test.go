package stats

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestReportsAreReadBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "reports")
	good := New(7, 3)
	good.Virtual, good.Wall = 90*time.Second, time.Second
	good.Faults["kill"], good.Hit["kill"], good.Counts["sessions opened"], good.Checked["I3"] = 2, 1, 40, 5
	bad := New(8, 5)
	bad.Failures, bad.Artifacts = []string{"I3 violated"}, "somewhere"
	for _, r := range []*Report{{Seed: 7, Begun: true}, good, {Seed: 8, Begun: true}, bad, {Seed: 9, Begun: true}} {
		if err := r.Append(path); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	ended, begun, err := Read(strings.NewReader(string(b) + `{"seed":9,"fau`))
	if err != nil {
		t.Fatal(err)
	}
	if len(ended) != 2 || !reflect.DeepEqual(ended[0], *good) || ended[1].Failures[0] != "I3 violated" {
		t.Errorf("got %+v", ended)
	}
	if !reflect.DeepEqual(begun, []uint64{9}) {
		t.Errorf("seeds %v have begun and not ended, want 9", begun)
	}
	if _, _, err := Read(strings.NewReader("PASS\n")); err == nil {
		t.Error("a line that is not a report is read without an error")
	}
}

func TestSumAddsUp(t *testing.T) {
	s := NewSum()
	for seed := range uint64(3) {
		r := New(seed, 3)
		r.Virtual, r.Wall = time.Minute, time.Second
		r.Faults["kill"], r.Hit["kill"], r.Counts["promises"], r.Checked["I1"] = 2, 1, 10, 100
		if seed == 1 {
			r.Failures = []string{"I1 violated", "I2 violated"}
		}
		s.Add(r)
	}
	if s.Seeds != 3 || s.ByNodes[3] != 3 || s.Virtual != 3*time.Minute || s.Busy != 3*time.Second {
		t.Errorf("got %+v", s)
	}
	if s.Faults["kill"] != 6 || s.Hit["kill"] != 3 || s.Counts["promises"] != 30 || s.Checked["I1"] != 300 {
		t.Errorf("got %+v", s)
	}
	if len(s.Failures) != 1 || s.Failures[0].Seed != 1 || len(s.Failures[0].Text) != 2 {
		t.Errorf("failures: %+v, want those of seed 1", s.Failures)
	}
}

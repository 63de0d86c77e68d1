package leader

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A1 as a readable table: intervals of 500 ms, and good rounds at the moments marked with *.
func TestA1ClockTranscript(t *testing.T) {
	c := clock{limit: time.Second}
	var lines []string
	for _, step := range []struct {
		ms   int
		good bool
	}{
		{0, false},
		{400, true},
		{900, false},
		{1400, false},
		{1401, false},
		{9000, false},
		{9000, true},
		{9500, false},
		{9700, true},
		{10_700, false},
		{10_701, false},
	} {
		mono, star := time.Duration(step.ms)*time.Millisecond, " "
		stood := time.Duration(0)
		if step.good {
			stood, star = c.good(mono), "*"
		}
		lines = append(
			lines, strings.TrimSpace(fmt.Sprintf("%s %7v reads %v credit %v stood %v", star, mono, c.read(mono),
				c.credit(mono), stood)),
		)
	}
	want := strings.Join([]string{
		"0s reads 0s credit 0s stood 0s",
		"*   400ms reads 400ms credit 0s stood 0s",
		"900ms reads 900ms credit 0s stood 0s",
		"1.4s reads 1.4s credit 0s stood 0s",
		"1.401s reads 1.4s credit 1ms stood 0s",
		"9s reads 1.4s credit 7.6s stood 0s",
		"*      9s reads 1.4s credit 7.6s stood 7.6s",
		"9.5s reads 1.9s credit 7.6s stood 0s",
		"*    9.7s reads 2.1s credit 7.6s stood 0s",
		"10.7s reads 3.1s credit 7.6s stood 0s",
		"10.701s reads 3.1s credit 7.601s stood 0s",
	}, "\n")
	if got := strings.Join(lines, "\n"); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// A1: the clock equals a model that counts each millisecond for which a good round was found, or the term began, within
// the last two intervals.
func TestA1ClockModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 100).Draw(t, "limit")
		c := clock{limit: time.Duration(limit) * time.Millisecond}
		reading, mono, last := 0, 0, 0
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			for range rapid.IntRange(0, 150).Draw(t, "ms") {
				if mono-last < limit {
					reading++
				}
				mono++
			}
			now := time.Duration(mono) * time.Millisecond
			if got := c.read(now); got != time.Duration(reading)*time.Millisecond {
				t.Fatalf("at %v reads %v, want %d ms", now, got, reading)
			}
			if got := c.credit(now); got != now-c.read(now) {
				t.Fatalf("at %v credit %v, reads %v", now, got, c.read(now))
			}
			if rapid.Bool().Draw(t, "good") {
				c.good(now)
				last = mono
				if got := c.read(now); got != time.Duration(reading)*time.Millisecond {
					t.Fatalf("a good round made the clock jump to %v, want %d ms", got, reading)
				}
			}
			ahead := rapid.IntRange(0, 200).Draw(t, "ahead")
			wait, ok := c.until(c.read(now)+time.Duration(ahead)*time.Millisecond, now)
			if ahead == 0 && (wait != 0 || !ok) {
				t.Fatalf("until what it reads: %v, %v", wait, ok)
			}
			if reachable := ahead == 0 || mono-last+ahead <= limit; ok != reachable {
				t.Fatalf("at %v until %d ms later: %v, want %v", now, ahead, ok, reachable)
			}
			if ok && c.read(now+wait) != c.read(now)+time.Duration(ahead)*time.Millisecond {
				t.Fatalf("after waiting %v it reads %v, want %d ms more", wait, c.read(now+wait), ahead)
			}
		}
	})
}

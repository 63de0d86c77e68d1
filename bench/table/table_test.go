package table

import (
	"strings"
	"testing"

	"holdfast/bench/play"
)

func TestFormat(t *testing.T) {
	for _, c := range []struct {
		v    float64
		unit play.Unit
		want string
	}{
		{0.0000421, play.Seconds, "42.1 us"},
		{0.00209, play.Seconds, "2.09 ms"},
		{0.159, play.Seconds, "159 ms"},
		{138, play.Seconds, "138 s"},
		{587, play.PerSecond, "587/s"},
		{13412, play.PerSecond, "13.4 k/s"},
		{0.599, play.Percent, "0.599 %"},
		{137, play.Percent, "137 %"},
		{844, play.Bytes, "844 B"},
		{12200, play.Bytes, "12.2 KB"},
		{0, play.Count, "0"},
		{204007, play.Count, "204007"},
	} {
		if got := Format(c.v, c.unit); got != c.want {
			t.Errorf("%v is %q, want %q", c.v, got, c.want)
		}
	}
}

func TestMedian(t *testing.T) {
	if got := Median([]float64{1, 2, 9}); got != 2 {
		t.Errorf("median of three is %v, want 2", got)
	}
	if got := Median([]float64{1, 2, 4, 9}); got != 3 {
		t.Errorf("median of four is %v, want 3", got)
	}
}

func TestMarkdown(t *testing.T) {
	run := func(system string, v float64) Run {
		return Run{Work: "open", System: system, Figures: map[string]float64{"p50": v}}
	}
	r := Results{
		Systems: []string{"A", "B", "C"},
		Runs: []Run{
			run("A", 0.003), run("B", 0.004), run("A", 0.001), {Work: "open", System: "B", Err: "x"}, run("A", 0.002),
		},
	}
	var out strings.Builder
	err := r.Markdown(&out, []play.Work{
		{Name: "open", Figures: []play.Figure{{Key: "p50", Title: "open, p50", Unit: play.Seconds}}},
	})
	const want = `| work | A | B | C |
|---|---|---|---|
| open, p50 | 2.00 ms (1.00 ms to 3.00 ms) | 4.00 ms, 1 failed | - |
`
	if got := out.String(); got != want || err != nil {
		t.Errorf("got %v\n%s\nwant\n%s", err, got, want)
	}
}

func TestJoin(t *testing.T) {
	with := func(v float64) *Results {
		return &Results{
			Systems: []string{"A"}, Runs: []Run{{System: "A", Figures: map[string]float64{"k": v}}},
		}
	}
	joined := Join([]*Results{with(1), with(2)})
	if got := joined.Systems; len(got) != 2 || got[0] != "A" || got[1] != "A (2)" {
		t.Fatalf("systems are %q, want A and A (2)", got)
	}
	for i, system := range joined.Systems {
		if got := joined.values("k", system); len(got) != 1 || got[0] != float64(i+1) {
			t.Errorf("figures of %s are %v, want those of the results of number %d", system, got, i+1)
		}
	}
}

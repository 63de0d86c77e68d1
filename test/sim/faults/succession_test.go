package faults

import (
	"context"
	"testing"
	"time"

	"holdfast/test/bubble"
)

// TestBeginSuccession shows which hosts the faults of a leader's succession concern.
func TestBeginSuccession(t *testing.T) {
	five := []int{0, 1, 2, 3, 4} // n4 leads
	for _, tt := range []struct {
		fault Fault
		did   map[string]int
		cuts  []way
		slow  []way
		dead  string
		text  string
	}{
		{
			Fault{Kind: ResetLeader, Nodes: five, Caller: 0.9},
			map[string]int{"reset": 6},
			nil, nil, "",
			"reset connections of leader n4 to n1 n2 n3 n5 c1 c2 every 100ms",
		},
		{
			Fault{Kind: ResetLeader, Nodes: five, Size: 0.3},
			map[string]int{"reset": 2},
			nil, nil, "",
			"reset connections of leader n4 to n1 n2 every 700ms",
		},
		{
			Fault{Kind: RefuseDials, Nodes: five, Size: 0.9, Caller: 0.1},
			map[string]int{"reset": 2, "refuse": 2},
			[]way{{"refused n1", "n4"}, {"refused n2", "n4"}},
			nil, "",
			"between leader n4 and n1 n2: refuse dials to the leader",
		},
		{
			Fault{Kind: RefuseDials, Nodes: five, Caller: 0.5},
			map[string]int{"reset": 1, "refuse": 1},
			[]way{{"refused n4", "n1"}},
			nil, "", "between leader n4 and n1: refuse dials of the leader",
		},
		{
			Fault{Kind: RefuseDials, Nodes: five, Caller: 0.9},
			map[string]int{"reset": 1, "refuse": 2},
			[]way{{"refused n4", "n1"}, {"refused n1", "n4"}},
			nil, "",
			"between leader n4 and n1: refuse each other's dials",
		},
		{
			Fault{Kind: Rivals, Nodes: five, Size: 0.5},
			nil, nil,
			[]way{{"n1", "n2"}, {"n5", "n3"}},
			"n4",
			"kill n4 while messages of the others to each other take 20ms longer",
		},
		{Fault{Kind: Blink, Nodes: five, Size: 0.5}, nil, nil, nil, "n1", "kill n1 and start it 5.5ms later"},
		{Fault{Kind: Blink, Nodes: five, Leads: true}, nil, nil, nil, "n4", "kill n4 and start it 1ms later"},
	} {
		bubble.Test(t, func(t *testing.T) {
			c := newCluster()
			lasting, end := context.WithCancel(t.Context())
			b := begin(lasting, tt.fault, c)
			time.Sleep(time.Microsecond)
			c.with(func() {
				for what, want := range tt.did {
					if got := c.did[what]; got != want {
						t.Errorf("%s: did %s %d times, want %d", tt.text, what, got, want)
					}
				}
				for _, w := range tt.cuts {
					if c.cuts[w] != 1 {
						t.Errorf("%s: %v is not refused", tt.text, w)
					}
				}
				for _, w := range tt.slow {
					if c.slow[w].more == 0 {
						t.Errorf("%s: %v is not slow", tt.text, w)
					}
				}
				if tt.dead != "" && !c.dead[tt.dead] || b.text != tt.text {
					t.Errorf("%s: %q, dead are %v", tt.text, b.text, c.dead)
				}
			})
			end()
			if !b.end() || positive(c.cuts) || c.dead[tt.dead] {
				t.Errorf("%s: something is left, or it hit nothing: %v %v", tt.text, c.cuts, c.dead)
			}
		})
	}
}

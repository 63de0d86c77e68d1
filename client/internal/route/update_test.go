package route

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// The examples of section 10.5 of the specification.
func TestPlanUpdate(t *testing.T) {
	tests := []struct {
		former, present []string
		mine            string
		leave, toAdded  float64
	}{
		{servers(1, 3), servers(1, 5), "s1:1", 0.4, 1},
		{servers(1, 3), servers(2, 6), "s1:1", 1, 1},
		{servers(1, 5), servers(1, 3), "s1:1", 0, 1},
		{servers(1, 5), servers(1, 3), "s4:1", 1, 0},
		{servers(1, 10), servers(7, 12), "s1:1", 1, 1 - 16.0/36},
		{servers(1, 3), servers(2, 4), "s1:1", 1, 1},
		{servers(1, 3), servers(1, 3), "s1:1", 0, 1},
		{servers(1, 3), servers(1, 3), "learnt:1", 1, 1}, // the share of clients at a learnt address is unknown
		{servers(1, 3), servers(4, 6), "s1:1", 1, 1},
	}
	for _, tt := range tests {
		u := PlanUpdate(tt.former, tt.present, tt.mine)
		if math.Abs(u.leave-tt.leave) > 1e-12 || math.Abs(u.toAdded-tt.toAdded) > 1e-12 ||
			len(u.known)+len(u.added) != len(tt.present) {
			t.Errorf("%v to %v at %s: got %+v, want %v and %v", tt.former, tt.present, tt.mine, u, tt.leave, tt.toAdded)
		}
	}
}

func TestTenThousandClientsRebalance(t *testing.T) {
	const clients = 10_000
	tests := []struct {
		name            string
		former, present []string
		moves           float64 // the share of clients that move
	}{
		{"3 to 5", servers(1, 3), servers(1, 5), 0.4},
		{"5 to 3", servers(1, 5), servers(1, 3), 0.4},
		{"10 to 6 with 2 new", servers(1, 10), servers(7, 12), 0.6},
		{"one replaced", servers(1, 3), servers(2, 4), 1.0 / 3},
		{"3 to 5 with one gone", servers(1, 3), servers(2, 6), 1.0/3 + 2.0/3*0.4},
		{"all replaced", servers(1, 3), servers(4, 7), 1},
		{"unchanged", servers(1, 3), servers(1, 3), 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := NewJitter(rand.NewPCG(3, 5), 0, 0)
			moved, load := 0, make(map[string]int)
			for range clients {
				mine := tt.former[int(d.draw()*float64(len(tt.former)))]
				u, at := PlanUpdate(tt.former, tt.present, mine), mine
				if u.Leaves(d) {
					at = u.Order(d)[0]
					moved++
				}
				if gone := !slices.Contains(tt.present, mine); gone && at == mine ||
					!gone && at != mine && len(tt.present) <= len(tt.former) {
					t.Fatalf("a client of server %s is at %s", mine, at)
				}
				load[at]++
			}
			near(t, "moved", moved, clients, tt.moves)
			for _, s := range tt.present {
				near(t, "load of "+s, load[s], clients, 1/float64(len(tt.present)))
			}
			if len(load) != len(tt.present) {
				t.Errorf("loads %v", load)
			}
		})
	}
}

func servers(from, to int) []string {
	var s []string
	for i := from; i <= to; i++ {
		s = append(s, fmt.Sprintf("s%d:1", i))
	}
	return s
}

// near fails if got is more than five standard deviations from the mean of n draws with probability p. That happens by
// chance in one of a million runs.
func near(t *testing.T, what string, got, n int, p float64) {
	t.Helper()
	mean, sigma := float64(n)*p, math.Sqrt(float64(n)*p*(1-p))
	if math.Abs(float64(got)-mean) > 5*sigma {
		t.Errorf("%s: got %d, want %.0f within %.0f", what, got, mean, 5*sigma)
	}
	t.Logf("%s: %d, expected %.0f, standard deviation %.1f", what, got, mean, sigma)
}

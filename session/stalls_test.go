package session

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

const stallGrace = time.Second

// naiveStalls keeps every stall, with the credit of each alone.
type naiveStalls []stall

func (n naiveStalls) credit(since time.Duration) (credit time.Duration) {
	for _, m := range n {
		if m.end > since {
			credit += m.credit
		}
	}
	return credit
}

func (n naiveStalls) due(due, since, timeout time.Duration) time.Duration {
	if len(n) == 0 || n[len(n)-1].end <= since {
		return due
	}
	end := n[len(n)-1].end
	return max(due, min(max(due+n.credit(since), end+stallGrace), end+timeout))
}

// stalling makes random stalls up to the moment until, on average one in each period.
func stalling(random *rand.Rand, until, period time.Duration) (*Stalls, naiveStalls) {
	var s *Stalls
	var n naiveStalls
	for now := time.Duration(0); now < until; {
		now += time.Duration(random.Int64N(int64(2 * period)))
		credit := 500*time.Millisecond + time.Duration(random.Int64N(int64(time.Second)))
		s, n = s.With(now, credit, stallGrace), append(n, stall{now, credit})
	}
	return s, n
}

func TestStallsAgainstAllOfThem(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		until := time.Duration(random.Int64N(int64(time.Minute)))
		s, n := stalling(random, until, 3*time.Second)
		for range 100 {
			since := time.Duration(random.Int64N(int64(until) + 1))
			if random.IntN(4) == 0 && len(n) > 0 {
				since = n[random.IntN(len(n))].end
			}
			timeout := time.Duration(random.Int64N(int64(40 * time.Second)))
			due := since + timeout + timeout/200
			if got, want := s.Due(due, since, timeout), n.due(due, since, timeout); got != want {
				t.Fatalf("seed %d: silent since %v, timeout %v: due at %v, want %v; %v", seed, since, timeout, got,
					want, n)
			}
		}
	}
}

// Merging stalls makes no session come due earlier, and none later by more than a small share of its silence.
func TestStallsThatAreMerged(t *testing.T) {
	for _, period := range []time.Duration{2 * time.Second, 10 * time.Second, 2 * time.Minute} {
		random := rand.New(rand.NewPCG(1, uint64(period)))
		until := 2000 * period
		s, n := stalling(random, until, period)
		if len(s.stalls) > maxStalls || s.Total() != n.credit(-1) {
			t.Fatalf("%d stalls, %v in total, want at most %d and %v", len(s.stalls), s.Total(), maxStalls, n.credit(-1))
		}
		if !slices.IsSortedFunc(s.stalls, func(a, b stall) int { return int(a.end - b.end) }) {
			t.Fatal("stalls are out of order")
		}
		worst := 0.0
		for range 20_000 {
			since := until - time.Duration(float64(until)*random.Float64()*random.Float64()*random.Float64())
			got, want := s.Total()-s.until(since), n.credit(since)
			if got < want {
				t.Fatalf("silent since %v: credited %v, want %v at least (I1)", since, got, want)
			}
			worst = max(worst, float64(got-want)/float64(until-since+stallGrace))
		}
		t.Logf("stalls every %v: at most %.1f %% of a session's silence credited too much", period, 100*worst)
		if worst > 0.15 {
			t.Errorf("stalls every %v: %.0f %% of a session's silence is credited too much", period, 100*worst)
		}
	}
}

// A stall whose end is before the newest one's end is merged with the newest: the clock may have stood in between.
func TestStallsAreInOrder(t *testing.T) {
	s := (*Stalls)(nil).With(10, 3, 1).With(8, 4, 1)
	if len(s.stalls) != 1 || s.Total() != 7 || s.until(9) != 0 || s.until(10) != 7 {
		t.Errorf("got %+v", s)
	}
}

// With changes nothing in the value that it is called on.
func TestStallsDoNotChange(t *testing.T) {
	var s *Stalls
	for i := range time.Duration(200) {
		before := s
		var want []stall
		if s != nil {
			want = slices.Clone(s.stalls)
		}
		s = s.With(10*i, 5, 1)
		if before != nil && !slices.Equal(before.stalls, want) {
			t.Fatalf("stall %d changed the value before it", i)
		}
	}
}

func BenchmarkStallsDue(b *testing.B) {
	s, _ := stalling(rand.New(rand.NewPCG(1, 1)), time.Hour, 10*time.Second)
	since := 59 * time.Minute
	b.ReportAllocs()
	for b.Loop() {
		if s.Due(since+30*time.Second, since, 30*time.Second) == 0 {
			b.Fatal("due at 0")
		}
		since--
	}
}

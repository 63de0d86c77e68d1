package watch_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"holdfast/tree"
	"holdfast/watch"
)

// sent drains a feed at a dispatcher's stamp, and writes the messages: LOST{s} and values, each with the told stamp if
// that rises. Stamps are single numbers here.
func sent(f *watch.Feed[string], root tree.Stamp, ready func(string) bool) (lines []string) {
	told := f.Delivered()
	for {
		s, ok := f.Next(time.Time{}, root, ready)
		if !ok {
			return lines
		}
		line := s.Value
		if s.Lost {
			line = fmt.Sprintf("LOST{%d}", uint64(s.Stamp))
		}
		if s.Delivered != told {
			line += fmt.Sprintf(" told %d", uint64(s.Delivered))
			told = s.Delivered
		}
		lines = append(lines, line)
	}
}

// TestFeed checks a feed's rules case by case. Limits are three events or a hundred bytes.
func TestFeed(t *testing.T) {
	limits := watch.FeedLimits{Events: 3, Bytes: 100}
	for _, c := range []struct {
		name string
		do   func(f *watch.Feed[string])
		root tree.Stamp
		want []string
	}{
		{"in order", func(f *watch.Feed[string]) {
			f.AddEvent(3, "a", 1)
			f.Answer(4, "answer")
			f.AddOneShot(5, "b")
		}, 9, []string{"a told 3", "answer told 4", "b told 5"}},
		{"a transaction's events raise told with the last of them", func(f *watch.Feed[string]) {
			f.AddEvent(3, "a", 1)
			f.AddOneShot(3, "b")
			f.AddEvent(3, "c", 1)
		}, 9, []string{"a", "b", "c told 3"}},
		{"nothing of a pass that goes on", func(f *watch.Feed[string]) {
			f.AddEvent(3, "a", 1)
			f.AddEvent(5, "b", 1)
		}, 4, []string{"a told 3"}},
		{"one LOST takes the place of the first, and is told with the dispatcher's stamp", func(f *watch.Feed[string]) {
			for stamp := range tree.Stamp(5) {
				f.AddEvent(5+stamp, "b", 1)
			}
		}, 20, []string{"LOST{20} told 20"}},
		{"what is behind an answer is lost behind it, because the answer may be of a new watch", func(f *watch.Feed[string]) {
			f.AddEvent(3, "a", 1)
			f.Answer(4, "answer")
			for stamp := range tree.Stamp(5) {
				f.AddEvent(5+stamp, "b", 1)
			}
		}, 20, []string{"LOST{3} told 3", "answer told 4", "LOST{20} told 20"}},
		{"what is behind an answer does not join a LOST in front of it", func(f *watch.Feed[string]) {
			f.Lose(3, 10)
			f.Answer(10, "answer")
			f.AddEvent(11, "a", 1)
		}, 20, []string{"LOST{10} told 10", "answer", "a told 11"}},
		{"bytes count too", func(f *watch.Feed[string]) {
			f.AddEvent(3, "a", 60)
			f.AddEvent(4, "b", 60)
		}, 20, []string{"LOST{20} told 20"}},
		{"kept events stay, and a LOST in front of one does not cover it", func(f *watch.Feed[string]) {
			f.AddEvent(3, "a", 1)
			f.AddOneShot(7, "once")
			f.AddEvent(8, "b", 1)
			f.AddEvent(9, "c", 1)
			f.AddEvent(10, "d", 1)
		}, 20, []string{"LOST{3} told 3", "once told 7", "LOST{20} told 20"}},
		{"what gives way with a kept event's stamp is lost behind it", func(f *watch.Feed[string]) {
			f.AddEvent(3, "a", 1)
			f.AddEvent(7, "b", 1)
			f.AddOneShot(7, "once")
			f.AddEvent(8, "c", 1)
			f.AddEvent(9, "d", 1)
		}, 20, []string{"LOST{6} told 6", "once", "LOST{20} told 20"}},
		{"nothing is lost in front if all has the kept event's stamp", func(f *watch.Feed[string]) {
			f.AddEvent(7, "a", 1)
			f.AddOneShot(7, "once")
			f.AddEvent(7, "b", 1)
			f.AddEvent(7, "c", 1)
			f.AddEvent(7, "d", 1)
		}, 20, []string{"once", "LOST{20} told 20"}},
		{"a LOST is parted by a kept event of a stamp that it covers", func(f *watch.Feed[string]) {
			f.Lose(3, 10)
			f.Answer(10, "answer")
			f.AddOneShot(8, "once")
		}, 20, []string{"LOST{7} told 7", "answer", "once", "LOST{20} told 20"}},
		{"kept events in front of a LOST for older changes do not raise told", func(f *watch.Feed[string]) {
			f.AddOneShot(8, "once")
			f.AddOneShot(9, "once more")
			f.Lose(3, 10)
		}, 10, []string{"once", "once more", "LOST{10} told 10"}},
		{"a LOST that turns out to cover older changes", func(f *watch.Feed[string]) {
			f.AddOneShot(2, "first")
			f.AddOneShot(8, "once")
			f.Lose(10, 11)
			f.Answer(11, "answer")
			f.Lose(3, 12)
			f.AddOneShot(20, "later")
		}, 20, []string{"first told 2", "once", "LOST{11}", "answer", "LOST{12} told 12", "later told 20"}},
		{"a LOST that comes to cover older changes", func(f *watch.Feed[string]) {
			f.AddOneShot(2, "first")
			f.AddOneShot(8, "once")
			f.Lose(10, 11)
			f.Lose(3, 12)
			f.AddOneShot(20, "later")
		}, 20, []string{"first told 2", "once", "LOST{12} told 12", "later told 20"}},
		{"a LOST of which the dispatcher has passed a part", func(f *watch.Feed[string]) {
			f.Lose(3, 10)
		}, 6, []string{"LOST{6} told 6"}},
		{"an answer with an old stamp changes nothing", func(f *watch.Feed[string]) {
			f.AddEvent(7, "a", 1)
			f.Answer(2, "repeated")
			f.AddEvent(7, "b", 1)
		}, 9, []string{"a", "repeated", "b told 7"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := watch.NewFeed[string](limits)
			c.do(f)
			if got := sent(f, c.root, nil); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestFeedGoesOnAfterLost: later events are delivered, and a new LOST covers later dropped ones.
func TestFeedGoesOnAfterLost(t *testing.T) {
	f := watch.NewFeed[string](watch.FeedLimits{Events: 1, Bytes: 100})
	f.AddEvent(3, "a", 1)
	f.AddEvent(4, "b", 1)
	got := sent(f, 5, nil)
	f.AddEvent(6, "c", 1)
	got = append(got, sent(f, 6, nil)...)
	f.AddEvent(7, "d", 1)
	f.AddEvent(8, "e", 1)
	got = append(got, sent(f, 9, nil)...)
	if want := []string{"LOST{5} told 5", "c told 6", "LOST{9} told 9"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if f.Len() != 0 {
		t.Errorf("%d are unsent", f.Len())
	}
}

// TestFeedLostAbovePass: events covered by the LOST of an unfinished pass are lost in a second one.
func TestFeedLostAbovePass(t *testing.T) {
	f := watch.NewFeed[string](watch.FeedLimits{Events: 1, Bytes: 100})
	f.AddEvent(3, "a", 1)
	f.AddEvent(7, "b", 1)
	got := sent(f, 5, nil)
	f.AddOneShot(7, "once")
	got = append(got, sent(f, 8, nil)...)
	if want := []string{"LOST{5} told 5", "LOST{6} told 6", "once", "LOST{8} told 8"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestFeedWaitsForAnswers: what is behind an answer that is being encoded is not sent before it (G2 atomic reads).
func TestFeedWaitsForAnswers(t *testing.T) {
	f := watch.NewFeed[string](watch.DefaultFeedLimits())
	f.AddEvent(3, "before", 1)
	f.Answer(3, "answer")
	f.AddEvent(4, "after", 1)
	encoded := false
	ready := func(string) bool { return encoded }
	if got, want := sent(f, 9, ready), []string{"before told 3"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	encoded = true
	if got, want := sent(f, 9, ready), []string{"answer", "after told 4"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestQuietConnectionGetsTheDispatchersStamp: a second after the last rise of told, to the nanosecond (V5 stamps for
// idle watchers).
func TestQuietConnectionGetsTheDispatchersStamp(t *testing.T) {
	f := watch.NewFeed[string](watch.DefaultFeedLimits())
	now := time.Unix(1000, 0)
	f.AddEvent(3, "a", 1)
	if _, due := f.Due(now, 9); due {
		t.Error("due while an event is unsent")
	}
	f.Next(now, 9, nil)
	if _, due := f.Due(now.Add(watch.QuietAfter-1), 9); due {
		t.Error("due too early")
	}
	if _, due := f.Due(now.Add(watch.QuietAfter), 3); due {
		t.Error("due without anything new")
	}
	if stamp, due := f.Due(now.Add(watch.QuietAfter), 9); !due || stamp != 9 || f.Delivered() != 9 {
		t.Errorf("told %v, %v", stamp, due)
	}
	if _, due := f.Due(now.Add(2*watch.QuietAfter-1), 10); due {
		t.Error("due again too early")
	}
}

// TestFeedIsBounded: a reader that never reads costs no more than the limits, and time that does not grow.
func TestFeedIsBounded(t *testing.T) {
	f := watch.NewFeed[string](watch.DefaultFeedLimits())
	most := 0
	for stamp := tree.Stamp(1); stamp <= 1_000_000; stamp++ {
		f.AddEvent(stamp/3, "event", 100) // three changes share a stamp
		most = max(most, f.Len())
	}
	if limit := watch.DefaultFeedLimits().Events; most != limit || f.Len() != 1 {
		t.Errorf("held %d, and %d at the end; want %d and 1", most, f.Len(), limit)
	}
}

package session_test

import (
	"cmp"
	"errors"
	"maps"
	"runtime"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"holdfast/session"
)

const width = 100 * time.Millisecond

func newQueue(tb testing.TB, interval time.Duration) *session.ExpiryQueue[time.Duration] {
	tb.Helper()
	q, err := session.NewExpiryQueue[time.Duration](interval)
	if err != nil {
		tb.Fatal(err)
	}
	return q
}

// byDeadline returns the later one of Value and the deadline, as the due time of a session.
func byDeadline(it *session.Item[time.Duration]) time.Duration { return max(it.Deadline(), it.Value) }

// pop sifts the queue and pops every session that is due.
func pop(q *session.ExpiryQueue[time.Duration], now time.Duration) []session.ID {
	q.Sift(now, byDeadline)
	var ids []session.ID
	q.Take(now, func(it *session.Item[time.Duration]) (time.Duration, session.Verdict) {
		due := byDeadline(it)
		if due <= now {
			ids = append(ids, it.ID())
		}
		return due, session.Pop
	})
	slices.Sort(ids)
	return ids
}

// a bucket comes due at the next multiple of the interval, strictly later than the due time.
func TestQueueRounding(t *testing.T) {
	for _, c := range []struct{ due, polled time.Duration }{
		{1, width},
		{width - 1, width},
		{width, 2 * width},
		{width + 1, 2 * width},
		{2*width - 1, 2 * width},
	} {
		q := newQueue(t, width)
		if _, err := q.Add(1, 0, c.due, c.due); err != nil {
			t.Fatal(err)
		}
		if next, ok := q.Next(); !ok || next != c.polled {
			t.Errorf("due %v: Next = %v, %v, want %v", c.due, next, ok, c.polled)
		}
		if got := pop(q, c.polled-1); got != nil {
			t.Errorf("due %v: popped %v one ns before %v", c.due, got, c.polled)
		}
		if got := pop(q, c.polled); len(got) != 1 {
			t.Errorf("due %v: not popped at %v", c.due, c.polled)
		}
	}
}

// Q-10, K-04: the queue refuses a timeout that is not positive, and an interval below the least.
func TestQueueRefuses(t *testing.T) {
	for _, timeout := range []time.Duration{0, -1, -time.Hour} {
		_, err := newQueue(t, width).Add(1, time.Second, timeout, 0)
		if field, ok := errors.AsType[*session.FieldError](err); !ok || field.Field != "timeout" {
			t.Errorf("Add with timeout %v: %v, want a FieldError for timeout", timeout, err)
		}
	}
	if _, err := session.NewExpiryQueue[int](session.MinExpiryInterval - 1); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("interval below the least: %v, want ErrInvalid", err)
	}
	if _, err := session.NewExpiryQueue[int](session.MinExpiryInterval); err != nil {
		t.Errorf("the least interval: %v", err)
	}
	q := newQueue(t, width)
	q.Add(7, 0, time.Second, 0)
	if _, err := q.Add(7, 0, time.Second, 0); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("second Add: %v, want ErrInvalid", err)
	}
}

// A touch leaves the session in its bucket. The session changes buckets once, when its bucket is polled, however often
// it was touched.
func TestQueueLazyRebucketing(t *testing.T) {
	q := newQueue(t, width)
	it, _ := q.Add(1, 0, 250*time.Millisecond, 0)
	for d := time.Second; d <= 2*time.Second; d += time.Millisecond {
		it.Touch(d)
	}
	if next, _ := q.Next(); next != 3*width {
		t.Errorf("after touches: Next = %v, want the first bucket, %v", next, 3*width)
	}
	if n := q.Sift(3*width, byDeadline); n != 0 {
		t.Errorf("Sift found %d due, want 0", n)
	}
	if next, _ := q.Next(); next != 2*time.Second+width {
		t.Errorf("after the poll: Next = %v, want %v", next, 2*time.Second+width)
	}
}

// A2: a touch never moves a deadline back.
func TestQueueTouchOnlyForward(t *testing.T) {
	it, _ := newQueue(t, width).Add(1, 0, time.Second, 0)
	it.Touch(5 * time.Second)
	it.Touch(4 * time.Second)
	if got := it.Deadline(); got != 5*time.Second {
		t.Errorf("deadline = %v, want 5s", got)
	}
}

// A session whose due time is in the past is popped by the next poll.
func TestQueuePast(t *testing.T) {
	q := newQueue(t, width)
	pop(q, time.Hour)
	q.Add(1, 0, time.Second, 0)
	if got := pop(q, time.Hour); len(got) != 1 {
		t.Errorf("popped %v, want the session that has long been due", got)
	}
}

// Q-20, K-18: a touch between the poll and the pop keeps the session. A popped session is marked. When its mark is
// removed, the session is filed with the deadline of its touches (E4 closing mark).
func TestQueueMarks(t *testing.T) {
	q := newQueue(t, width)
	it, _ := q.Add(1, 0, 50*time.Millisecond, 0)
	if n := q.Sift(width, byDeadline); n != 1 || q.Due() != 1 {
		t.Fatalf("Sift = %d, Due = %d, want 1, 1", n, q.Due())
	}
	it.Touch(time.Second)
	if got := pop(q, width); got != nil || q.Due() != 0 || it.Marked() {
		t.Fatalf("popped %v, Due = %d, marked %v, want that the touch after the poll keeps it", got, q.Due(), it.Marked())
	}
	if got := pop(q, time.Second+width); len(got) != 1 || !it.Marked() || q.Marked() != 1 {
		t.Fatalf("popped %v, marked %v, %d", got, it.Marked(), q.Marked())
	}
	it.Touch(9 * time.Second)
	if got := pop(q, time.Hour); got != nil {
		t.Fatalf("popped %v although it is marked", got)
	}
	q.Return(it, it.Deadline())
	if got := pop(q, 9*time.Second); got != nil || q.Marked() != 0 {
		t.Errorf("popped %v before the deadline of a touch that came while it was marked; %d marked", got, q.Marked())
	}
	if got := pop(q, 9*time.Second+width); len(got) != 1 {
		t.Errorf("a session whose mark was taken back did not come due again")
	}
}

func TestQueueStop(t *testing.T) {
	q := newQueue(t, width)
	for id := session.ID(1); id <= 10; id++ {
		q.Add(id, 0, time.Millisecond, 0)
	}
	q.Sift(width, byDeadline)
	asked := 0
	q.Take(width, func(*session.Item[time.Duration]) (time.Duration, session.Verdict) {
		if asked++; asked > 3 {
			return 0, session.Stop
		}
		return 0, session.Pop
	})
	if asked != 4 || q.Due() != 7 || q.Marked() != 3 {
		t.Errorf("asked %d, due %d, marked %d, want 4, 7, 3", asked, q.Due(), q.Marked())
	}
}

// model is one session of the list that TestQueueModel compares the queue with.
type model struct {
	deadline, from time.Duration
	marked         bool
}

// TestQueueModel compares the queue with a list sorted by due time. After any operations, the sessions that pop at a
// moment are those that are due in the list, at most one interval late.
func TestQueueModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		interval := time.Duration(rapid.IntRange(50, 1000).Draw(t, "interval")) * time.Millisecond
		q, err := session.NewExpiryQueue[time.Duration](interval)
		if err != nil {
			t.Fatal(err)
		}
		list := make(map[session.ID]*model)
		now := time.Duration(0)
		drawID := rapid.Custom(func(t *rapid.T) session.ID { return session.ID(rapid.IntRange(1, 12).Draw(t, "id")) })
		drawTimeout := rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(rapid.IntRange(1, 5000).Draw(t, "timeout")) * time.Millisecond
		})
		due := func(m *model) time.Duration { return max(m.deadline, m.from) }
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				id, timeout := drawID.Draw(t, "id"), drawTimeout.Draw(t, "timeout")
				_, err := q.Add(id, now, timeout, now+timeout)
				if _, here := list[id]; here != (err != nil) {
					t.Fatalf("Add(%v) = %v, here before: %v", id, err, here)
				} else if !here {
					list[id] = &model{from: now + timeout}
				}
			},
			"touch": func(t *rapid.T) {
				id, d := drawID.Draw(t, "id"), now+drawTimeout.Draw(t, "timeout")
				it, m := q.Find(id), list[id]
				if (it == nil) != (m == nil) {
					t.Fatalf("Find(%v) = %v, want %v", id, it, m)
				}
				if it != nil {
					it.Touch(d)
					m.deadline = max(m.deadline, d)
				}
			},
			"remove": func(t *rapid.T) {
				id := drawID.Draw(t, "id")
				if _, here := list[id]; q.Remove(id) != here {
					t.Fatalf("Remove(%v) = %v", id, !here)
				}
				delete(list, id)
			},
			"return": func(t *rapid.T) {
				id := drawID.Draw(t, "id")
				if it := q.Find(id); it != nil {
					q.Return(it, byDeadline(it))
					list[id].marked = false
				}
			},
			"hasten": func(t *rapid.T) { // some come due earlier than they were filed for
				sooner := drawTimeout.Draw(t, "sooner")
				for id, m := range list {
					if id%2 == 0 {
						q.Find(id).Value -= sooner
						m.from -= sooner
					}
				}
				q.Hasten(func(it *session.Item[time.Duration]) (time.Duration, bool) { return byDeadline(it), it.ID()%2 == 0 })
			},
			"poll": func(t *rapid.T) {
				now += time.Duration(rapid.IntRange(0, 3000).Draw(t, "ms")) * time.Millisecond
				got := pop(q, now)
				for _, id := range got {
					if m := list[id]; m.marked || due(m) > now {
						t.Fatalf("at %v popped %v, marked %v, due %v", now, id, m.marked, due(m))
					}
					list[id].marked = true
				}
				for id, m := range list {
					if !m.marked && due(m)+interval <= now {
						t.Fatalf("at %v not popped: %v, due %v, interval %v", now, id, due(m), interval)
					}
				}
			},
			"": func(t *rapid.T) {
				check(t, q, list)
			},
		})
	})
}

func check(t *rapid.T, q *session.ExpiryQueue[time.Duration], list map[session.ID]*model) {
	marked := 0
	ids := slices.Sorted(maps.Keys(list))
	for _, id := range ids {
		it := q.Find(id)
		if it == nil || it.Marked() != list[id].marked || it.Deadline() != list[id].deadline {
			t.Fatalf("%v: queue has %+v, list %+v", id, it, list[id])
		}
		if it.Marked() {
			marked++
		}
	}
	if q.Len() != len(list) || q.Marked() != marked {
		t.Fatalf("Len %d, Marked %d, want %d, %d", q.Len(), q.Marked(), len(list), marked)
	}
	next, ok := q.Next()
	if waiting := len(list) - marked - q.Due(); ok != (waiting > 0) {
		t.Fatalf("Next = %v, %v with %d in buckets", next, ok, waiting)
	}
	if ok {
		first := slices.MinFunc(ids, func(a, b session.ID) int { return cmp.Compare(order(list[a]), order(list[b])) })
		if latest := order(list[first]); q.Due() == 0 && next > latest+time.Second {
			t.Fatalf("Next = %v, but %v is due at %v", next, first, latest)
		}
	}
}

// order sorts by due time, with the marked sessions last.
func order(m *model) time.Duration {
	if m.marked {
		return 1<<63 - 1 - time.Second
	}
	return max(m.deadline, m.from)
}

func BenchmarkQueueTouch(b *testing.B) {
	const sessions = 1_000_000
	q := newQueue(b, session.DefaultExpiryInterval)
	ids := make([]session.ID, sessions)
	for i := range ids {
		ids[i] = session.ID(1<<56 | i*37<<3)
		q.Add(ids[i], 0, 30*time.Second, 0)
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		q.Find(ids[i]).Touch(time.Duration(i))
		if i++; i == sessions {
			i = 0
		}
	}
}

// BenchmarkQueuePoll sifts 100,000 sessions that are all due, pops them and marks them.
func BenchmarkQueuePoll(b *testing.B) {
	const sessions = 100_000
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		q := newQueue(b, session.DefaultExpiryInterval)
		for i := range sessions {
			q.Add(session.ID(i+1), 0, 30*time.Second, 0)
		}
		b.StartTimer()
		q.Sift(time.Minute, byDeadline)
		q.Take(time.Minute, func(*session.Item[time.Duration]) (time.Duration, session.Verdict) {
			return 0, session.Pop
		})
		if q.Marked() != sessions {
			b.Fatalf("%d popped", q.Marked())
		}
	}
}

// BenchmarkQueueHasten looks at a million sessions, none of which comes due earlier than it was filed for.
func BenchmarkQueueHasten(b *testing.B) {
	const sessions = 1_000_000
	q := newQueue(b, session.DefaultExpiryInterval)
	for i := range sessions {
		q.Add(session.ID(i+1), time.Duration(i)*10*time.Microsecond, 30*time.Second, 0)
	}
	b.ReportAllocs()
	for b.Loop() {
		q.Hasten(func(it *session.Item[time.Duration]) (time.Duration, bool) { return time.Minute, it.ID()%3 == 0 })
	}
}

func BenchmarkQueueHeap(b *testing.B) {
	const sessions = 1_000_000
	for b.Loop() {
		before := liveHeap()
		q := newQueue(b, session.DefaultExpiryInterval)
		for i := range sessions {
			q.Add(session.ID(i+1), 0, 30*time.Second, 0)
		}
		b.ReportMetric(float64(liveHeap()-before)/sessions, "B/session")
		runtime.KeepAlive(q)
	}
}

func liveHeap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Sessions leave the due list in the order in which their buckets came due, whatever was removed from the list
// meanwhile.
func TestDueSessionsAreTakenInTheirOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q, err := session.NewExpiryQueue[time.Duration](session.MinExpiryInterval)
		if err != nil {
			t.Fatal(err)
		}
		count := rapid.IntRange(1, 60).Draw(t, "sessions")
		for i := range count {
			due := time.Duration(rapid.IntRange(1, 8).Draw(t, "due")) * session.MinExpiryInterval
			if _, err := q.Add(session.ID(i+1), 0, due, due); err != nil {
				t.Fatal(err)
			}
		}
		last := time.Duration(0)
		now := time.Duration(0)
		for q.Len() > q.Marked() {
			now += time.Duration(rapid.IntRange(0, 3).Draw(t, "later")) * session.MinExpiryInterval
			q.Sift(now, func(it *session.Item[time.Duration]) time.Duration { return it.Value })
			if rapid.Bool().Draw(t, "removes") {
				q.Remove(session.ID(rapid.IntRange(1, count).Draw(t, "removed")))
			}
			left := rapid.IntRange(0, 10).Draw(t, "taken")
			q.Take(now, func(it *session.Item[time.Duration]) (time.Duration, session.Verdict) {
				if left == 0 {
					return it.Value, session.Stop
				}
				left--
				if it.Value < last {
					t.Fatalf("session due at %v was taken behind one due at %v", it.Value, last)
				}
				last = it.Value
				return it.Value, session.Pop
			})
		}
	})
}

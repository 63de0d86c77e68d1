package learner

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"holdfast/session"
)

// T1: several goroutines touch while the table is swapped again and again. Each session's newest touch is in one of the
// results.
func TestT1NoTouchFallsBetweenTwoTables(t *testing.T) {
	const sessions, writers, touches = 64, 4, 20_000
	table := NewTouchTable()
	var served []*attached
	for id := session.ID(1); id <= sessions; id++ {
		served = append(served, table.attach(session.Session{
			ID: id, Spec: session.Spec{Timeout: timeout},
			Attachment: uint64(id),
		}, nil,
			mark{tag: table.nextTag()}, 0))
	}
	var newest [sessions]atomic.Int64
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range touches {
				a := served[(i*writers+w)%sessions] // each session has one writer, so its touches rise
				at := time.Duration(i + 1)
				if _, err := table.touch(a, at); err != nil {
					t.Errorf("touch: %v", err)
				}
				newest[a.id-1].Store(int64(at))
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	var seen [sessions]time.Duration
	take := func() {
		buf, _ := table.swap(nil, false)
		for _, touch := range buf {
			seen[touch.id-1] = max(seen[touch.id-1], touch.at)
		}
	}
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		take()
	}
	for i := range seen {
		if want := time.Duration(newest[i].Load()); seen[i] != want {
			t.Errorf("session %d: newest touch taken is %d, want %d", i+1, seen[i], want)
		}
	}
}

// model keeps the table's promises the slow way: it remembers every report with its stream.
type model struct {
	last      map[session.ID]time.Duration
	listed    map[session.ID]bool
	confirmed map[session.ID]time.Duration
	reports   []report
	// taken is when the table was taken, by tag.
	taken map[uint64]time.Duration
	// told is what the heartbeats of the present stream have told.
	told confirmedAnswers
}

// hear processes what a heartbeat confirms of the answers of a stream.
func (m *model) hear(told confirmedAnswers, notTaken []session.ID, stream uint64) {
	if told.confirmed.tag > m.told.confirmed.tag {
		m.told.confirmed = told.confirmed
	}
	m.told.processed = max(m.told.processed, told.processed)
	for i := range m.reports {
		r := &m.reports[i]
		r.lost = r.lost || slices.Contains(notTaken, r.id)
		if r.lost || r.stream != stream || r.tag > m.told.processed {
			continue
		}
		at := r.at
		if r.tag > m.told.confirmed.tag {
			at = min(at, m.told.confirmed.at)
		}
		if m.told.confirmed.tag > 0 {
			m.confirmed[r.id] = max(m.confirmed[r.id], at)
		}
	}
}

// report is a touch that an answer has reported.
type report struct {
	tag, stream uint64
	id          session.ID
	at          time.Duration
	lost        bool
}

// The table agrees with a model. Answers carry exactly the touches of the model. A promise is never longer than the
// model's (I3 an acknowledged touch counts); it may be shorter, because the table remembers only two reports for each
// session.
func TestTableAgainstModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		const sessions = 5
		table := NewTouchTable()
		m := model{
			last: map[session.ID]time.Duration{}, listed: map[session.ID]bool{},
			confirmed: map[session.ID]time.Duration{}, taken: map[uint64]time.Duration{},
		}
		served := map[session.ID]*attached{}
		now, stream, newestTag := time.Duration(0), uint64(1), uint64(0)
		for id := session.ID(1); id <= sessions; id++ {
			served[id] = table.attach(session.Session{
				ID: id, Spec: session.Spec{Timeout: time.Hour},
				Attachment: 1,
			}, nil, mark{}, 0)
		}
		id := rapid.Map(rapid.IntRange(1, sessions), func(n int) session.ID { return session.ID(n) })
		rt.Repeat(map[string]func(*rapid.T){
			"touch": func(rt *rapid.T) {
				now += time.Duration(rapid.IntRange(1, 100).Draw(rt, "later"))
				one := id.Draw(rt, "id")
				got, err := table.touch(served[one], now)
				if err != nil {
					rt.Fatalf("touch: %v", err)
				}
				m.last[one], m.listed[one] = now, true
				confirmed, ok := m.confirmed[one]
				most := time.Hour - (now - confirmed) - time.Hour/100 - time.Millisecond
				if got >= 0 && (!ok || got > most) {
					rt.Fatalf("session %d is promised %v, want at most %v (confirmed: %v)", one, got, most, ok)
				}
			},
			"answer": func(rt *rapid.T) {
				taken, tag := table.swap(nil, false)
				newestTag, m.taken[tag] = tag, now
				got := map[session.ID]time.Duration{}
				for _, touch := range taken {
					got[touch.id] = touch.at
				}
				if len(got) != len(m.listed) || len(taken) != len(m.listed) {
					rt.Fatalf("answer holds %v, want %v", got, m.listed)
				}
				for one := range m.listed {
					if got[one] != m.last[one] {
						rt.Fatalf("answer holds %v for %d, want %v", got[one], one, m.last[one])
					}
					m.reports = append(m.reports, report{tag, stream, one, m.last[one], false})
				}
				clear(m.listed)
			},
			"confirm": func(rt *rapid.T) {
				if newestTag == 0 {
					return
				}
				tag := rapid.Uint64Range(1, newestTag).Draw(rt, "tag")
				processed := rapid.Uint64Range(tag, newestTag).Draw(rt, "processed")
				notTaken := rapid.SliceOfNDistinct(id, 0, 2, rapid.ID).Draw(rt, "not taken")
				if tag < table.window.Load().first {
					return // a relay confirms only what its own stream reported
				}
				told := confirmedAnswers{confirmed: answered{tag: tag, at: m.taken[tag]}, processed: processed}
				table.confirm(told, notTaken)
				m.hear(told, notTaken, stream)
			},
			"refusal": func(rt *rapid.T) {
				one := id.Draw(rt, "id")
				table.confirm(confirmedAnswers{}, []session.ID{one})
				m.hear(confirmedAnswers{}, []session.ID{one}, stream)
			},
			"new stream": func(*rapid.T) {
				table.beginStream()
				stream++
				m.told = confirmedAnswers{}
			},
			"suspension": func(*rapid.T) {
				table.dropPromises()
				clear(m.confirmed)
				m.reports, m.told = nil, confirmedAnswers{}
			},
		})
	})
}

// confirmedUpTo says that the answers up to a tag are confirmed.
func confirmedUpTo(tag uint64) confirmedAnswers {
	return confirmedAnswers{confirmed: answered{tag: tag}, processed: tag}
}

// S1: a refusal leaves reports of later answers alone.
func TestDiscardLeavesLaterReports(t *testing.T) {
	table := NewTouchTable()
	a := table.attach(session.Session{ID: 1, Spec: session.Spec{Timeout: timeout}, Attachment: 1}, nil, mark{}, 0)
	report := func(at time.Duration) uint64 {
		if _, err := table.touch(a, at); err != nil {
			t.Fatal(err)
		}
		_, tag := table.swap(nil, false)
		return tag
	}
	report(1)
	first := report(2)
	table.confirm(confirmedUpTo(first), []session.ID{1})
	if got, _ := table.touch(a, 3); got >= 0 {
		t.Errorf("promise after a refusal: %v, want none", got)
	}
	table.confirm(confirmedUpTo(report(3)), nil)
	if got, want := table.find(1).promise(table.window.Load(), 4), promised(1); got != want {
		t.Errorf("promise from the later report: %v, want %v", got, want)
	}
}

package fsm

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/session"
)

// filterPage is the number of sessions that one page of a list looks at: learner's maxScan.
const filterPage = 100_000

// scan goes once through all sessions with a filter, a frozen copy for each page, as a node does for ListSessions. It
// returns how many sessions match.
func scan(r *replica, filter *session.Filter) (matches int) {
	last := session.ID(0)
	for more := true; more; {
		more = false
		looked := 0
		r.Frozen().Ascend(last, func(one session.Session) bool {
			if looked == filterPage {
				more = true
				return false
			}
			looked++
			if last = one.ID; filter.Match(&one) {
				matches++
			}
			return true
		})
	}
	return matches
}

// An entry with one open is applied every 200 us to a state of a million sessions, while so many filters by label scan
// it again and again. One iteration is one entry; it waits while the next one is not due.
func BenchmarkApplyBesideFilters(b *testing.B) {
	r := filled(b, encodedOpens(b, million))
	open := session.OpenSession{
		Node: 9, Spec: session.Spec{Timeout: 30 * time.Second, Labels: session.Labels{{Key: "service", Value: "web"}}},
	}
	filter := &session.Filter{Labels: open.Labels}
	request := uint64(1) << 40
	for _, filters := range []int{0, 1, 4} {
		b.Run(fmt.Sprintf("filters=%d", filters), func(b *testing.B) {
			var wg sync.WaitGroup
			var over atomic.Bool
			var scans, took atomic.Int64
			for range filters {
				wg.Go(func() {
					for !over.Load() {
						began := time.Now()
						if scan(r, filter) == 0 && r.Sessions() > million {
							b.Error("the filter found none of the sessions that are there")
						}
						scans.Add(1)
						took.Add(int64(time.Since(began)))
					}
				})
			}
			var pauses []time.Duration
			next := time.Now()
			for b.Loop() {
				next = next.Add(200 * time.Microsecond)
				time.Sleep(time.Until(next))
				request++
				binary.BigEndian.PutUint64(open.RequestID[:], request)
				began := time.Now()
				r.do(b, open)
				pauses = append(pauses, time.Since(began))
			}
			over.Store(true)
			wg.Wait()
			slices.Sort(pauses)
			b.ReportMetric(float64(pauses[len(pauses)/2].Microseconds()), "p50-us")
			b.ReportMetric(float64(pauses[len(pauses)*99/100].Microseconds()), "p99-us")
			b.ReportMetric(float64(pauses[len(pauses)-1].Microseconds()), "max-us")
			if n := scans.Load(); n > 0 {
				b.ReportMetric(float64(took.Load()/n)/1e6, "ms/scan")
			}
		})
	}
}

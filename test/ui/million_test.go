package ui

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/durationpb"

	"holdfast/client"
	holdfastv1 "holdfast/proto/holdfast/v1"
)

// BenchmarkAMillionSessions measures pages of sessions in a cluster that has a million, and what they cost somebody who
// opens a session meanwhile. The cluster is frozen, so that nobody has to touch them. It takes minutes.
func BenchmarkAMillionSessions(b *testing.B) {
	c := begin(b, nil)
	cl, ctx := c.connect(b), b.Context()
	if err := cl.Freeze(ctx, time.Hour, "a benchmark"); err != nil {
		b.Fatal(err)
	}
	const all, connections, inFlight = 1_000_000, 8, 64
	var next atomic.Int64
	var opening sync.WaitGroup
	for i := range connections {
		conn, err := grpc.NewClient(c.configs[i%3].Listen.Client, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			b.Fatal(err)
		}
		defer conn.Close() // the benchmark is over
		sessions := holdfastv1.NewSessionServiceClient(conn)
		for range inFlight {
			opening.Go(func() {
				for n := next.Add(1); n <= all; n = next.Add(1) {
					id := uuid.New()
					if _, err := sessions.OpenSession(ctx, &holdfastv1.OpenSessionRequest{
						RequestId: id[:], Timeout: durationpb.New(40 * time.Second),
						Labels: map[string]string{"name": fmt.Sprintf("n%d", n)},
					}); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
	}
	opening.Wait()
	longest := func(times []time.Duration) (p50, most float64) {
		slices.Sort(times)
		return float64(times[len(times)/2].Microseconds()) / 1000, float64(times[len(times)-1].Microseconds()) / 1000
	}
	ask := func(page, want string) time.Duration {
		begun := time.Now()
		answer, err := http.Get(c.url(0, page))
		if err != nil {
			b.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if err != nil || !strings.Contains(string(body), want) {
			b.Fatalf("%s: %v, without %q", page, err, want)
		}
		return time.Since(begun)
	}
	opens := func(stop <-chan struct{}) (times []time.Duration) {
		for {
			select {
			case <-stop:
				return times
			default:
			}
			begun := time.Now()
			s, err := cl.Open(ctx, client.SessionOptions{Timeout: 40 * time.Second})
			if err != nil {
				b.Error(err)
				return times
			}
			times = append(times, time.Since(begun))
			if err := s.Close(ctx); err != nil {
				b.Error(err)
			}
		}
	}
	beside := func(what string, f func()) {
		stop := make(chan struct{})
		done := make(chan []time.Duration)
		go func() { done <- opens(stop) }()
		f()
		close(stop)
		p50, most := longest(<-done)
		b.ReportMetric(p50, "ms-open-p50-"+what)
		b.ReportMetric(most, "ms-open-most-"+what)
	}
	for b.Loop() {
		beside("alone", func() { <-time.After(5 * time.Second) })
		beside("searched", func() {
			for name, page := range map[string][2]string{
				"first": {"sessions", "0x"}, "label": {"sessions?label=name%3Dn777777", "name=n777777"},
				"none": {"sessions?label=name%3Dnobody", "Sessions"}, "age": {"sessions?min_age=1h", "Sessions"},
			} {
				var times []time.Duration
				for range 10 {
					times = append(times, ask(page[0], page[1]))
				}
				p50, most := longest(times)
				b.ReportMetric(p50, "ms-p50-"+name)
				b.ReportMetric(most, "ms-most-"+name)
			}
		})
	}
}

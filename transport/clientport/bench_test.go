package clientport

import (
	"net"
	"net/netip"
	"runtime"
	"testing"
	"time"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/dial"
	"holdfast/transport/internal/porttest"
	"holdfast/transport/ratelimit"
)

// served starts a client port on loopback and returns its address.
func served(b *testing.B) string {
	b.Helper()
	return servedBy(b, &fakeService{})
}

func servedBy(b *testing.B, service *fakeService) string {
	b.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	s := New(Config{}, service, fakeCluster{})
	done := make(chan error, 1)
	go func() { done <- s.Serve(listener) }()
	b.Cleanup(func() {
		if err := s.Stop(b.Context()); err != nil {
			b.Log(err)
		}
		<-done
	})
	return listener.Addr().String()
}

func connect(b *testing.B, address string) holdfastv1.SessionService_ConnectClient {
	b.Helper()
	conn, err := dial.Client(address, dial.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close() })
	stream, err := holdfastv1.NewSessionServiceClient(conn).Connect(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	return stream
}

func touchOnce(b *testing.B, stream holdfastv1.SessionService_ConnectClient, seq uint64) {
	b.Helper()
	if err := stream.Send(touchMessage(seq)); err != nil {
		b.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkTouch measures one keep-alive and its answer over loopback, client and server in one process.
func BenchmarkTouch(b *testing.B) {
	stream := connect(b, served(b))
	b.ReportAllocs()
	for seq := uint64(1); b.Loop(); seq++ {
		touchOnce(b, stream, seq)
	}
}

// BenchmarkOpens measures 256 opens, their closes and all answers over loopback, client and server in one process: in
// messages of their own, and in batches. The node answers at once.
func BenchmarkOpens(b *testing.B) {
	const each = 256
	for name, batches := range map[string]bool{"single": false, "batch": true} {
		b.Run(name, func(b *testing.B) {
			service := &fakeService{start: func(r session.Request, done func(session.Grant, error)) bool {
				if r.Close != nil {
					done(session.Grant{}, nil)
				} else {
					done(porttest.Grant(session.ID(r.Open.MS)), nil)
				}
				return true
			}}
			stream := connect(b, servedBy(b, service))
			var messages []*holdfastv1.ClientMessage
			for seq := range uint64(each) {
				messages = append(messages, openMessage(seq+1), closeMessage(each+seq+1, 7))
			}
			if batches {
				messages = []*holdfastv1.ClientMessage{batchMessage(messages...)}
			}
			b.ReportAllocs()
			for b.Loop() {
				for _, m := range messages {
					if err := stream.Send(m); err != nil {
						b.Fatal(err)
					}
				}
				for n := 0; n < 2*each; {
					m, err := stream.Recv()
					if err != nil {
						b.Fatal(err)
					}
					n += max(1, len(m.GetAnswers().GetMessages()))
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/each, "ns/session")
		})
	}
}

// BenchmarkIdleConnection reports the memory of one idle connection with one stream, client and server together.
func BenchmarkIdleConnection(b *testing.B) {
	const connections = 1000
	for b.Loop() {
		address := served(b)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for range connections {
			touchOnce(b, connect(b, address), 1)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc+after.StackInuse-before.HeapAlloc-before.StackInuse)/connections,
			"B/connection")
	}
}

// BenchmarkRateLimits measures a request at the limiter: an admitted touch, a refused resume, and a resume that counts
// by address and principal too.
func BenchmarkRateLimits(b *testing.B) {
	v := ratelimit.Caller{Address: netip.MustParseAddr("192.0.2.1"), Name: "a"}
	for name, c := range map[string]struct {
		config ratelimit.Config
		kind   ratelimit.Kind
	}{
		"touch":   {ratelimit.Config{Touches: mostOfBenchmark}, ratelimit.Touches},
		"refused": {ratelimit.Config{Resumes: 1}, ratelimit.Resumes},
		"by-all": {
			ratelimit.Config{
				Resumes: mostOfBenchmark, OpensAndResumesPerAddress: mostOfBenchmark, OpensAndResumesPerClient: mostOfBenchmark,
			}, ratelimit.Resumes,
		},
	} {
		b.Run(name, func(b *testing.B) {
			g := ratelimit.New(c.config)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					_ = g.Admit(time.Now(), c.kind, 1, v)
				}
			})
		})
	}
}

// mostOfBenchmark is a budget that is never used up.
const mostOfBenchmark = 1_000_000_000

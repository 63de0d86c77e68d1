package clientport

import (
	"net"
	"net/netip"
	"runtime"
	"testing"
	"time"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/transport/dial"
	"holdfast/transport/gate"
)

// served starts a client port on loopback and returns its address.
func served(b *testing.B) string {
	b.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	s := New(Config{}, &fakeService{}, fakeCluster{})
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

// BenchmarkGate measures a request at the gate: an admitted touch, a refused resume, and a resume that counts by
// address and principal too.
func BenchmarkGate(b *testing.B) {
	v := gate.Caller{Address: netip.MustParseAddr("192.0.2.1"), Principal: "a"}
	for name, c := range map[string]struct {
		config gate.Config
		kind   gate.Kind
	}{
		"touch":   {gate.Config{Touches: mostOfBenchmark}, gate.Touches},
		"refused": {gate.Config{Resumes: 1}, gate.Resumes},
		"by-all": {
			gate.Config{
				Resumes: mostOfBenchmark, ArrivalsPerAddress: mostOfBenchmark, ArrivalsPerPrincipal: mostOfBenchmark,
			}, gate.Resumes,
		},
	} {
		b.Run(name, func(b *testing.B) {
			g := gate.New(c.config)
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

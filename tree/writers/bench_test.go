package writers_test

import (
	"math/rand/v2"
	"runtime"
	"testing"

	"holdfast/tree/writers"
)

// summed is a digest that costs next to nothing.
type summed struct{ sum uint64 }

func (s *summed) Add(canonical []byte)    { s.sum += uint64(len(canonical)) }
func (s *summed) Remove(canonical []byte) { s.sum -= uint64(len(canonical)) }

const many = 1_000_000

// filled returns a table in which many sessions have written and acknowledged.
func filled(tb testing.TB) *writers.Table {
	tb.Helper()
	table := writers.New(&summed{}, writers.DefaultLimits())
	for id := uint64(1); id <= many; id++ {
		write(tb, table, id, 0, 8)
		table.Acknowledge(id, 1)
	}
	return table
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// BenchmarkHeap reports the live heap of an idle session that has written, among a million.
func BenchmarkHeap(b *testing.B) {
	before := heap()
	table := filled(b)
	per := float64(heap()-before) / many
	if per > 100 {
		b.Errorf("an idle writer takes %.0f bytes, want at most 100", per)
	}
	for b.Loop() {
	}
	b.ReportMetric(per, "B/writer")
	runtime.KeepAlive(table)
}

// BenchmarkWrite accepts and keeps writes of random sessions among a million, each acknowledging the one before it. 256
// of them share a log entry: the table is frozen after these.
func BenchmarkWrite(b *testing.B) {
	table := filled(b)
	random := rand.New(rand.NewPCG(1, 2))
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		id := 1 + random.Uint64N(many)
		w, _ := table.Writer(id)
		if v, _ := table.Admit(id, w.Applied+1, w.Applied); v != writers.Apply {
			b.Fatal(v)
		}
		table.Keep(id, w.Applied+1, "", make([]byte, 16))
		if n++; n%256 == 0 {
			table.Freeze()
		}
	}
}

// BenchmarkPipeline accepts and keeps writes of one session with 255 of them unacknowledged.
func BenchmarkPipeline(b *testing.B) {
	table := writers.New(&summed{}, writers.DefaultLimits())
	b.ReportAllocs()
	var number uint64
	for b.Loop() {
		number++
		if v, _ := table.Admit(1, number, number-min(number, 255)); v != writers.Apply {
			b.Fatal(v)
		}
		table.Keep(1, number, "", make([]byte, 16))
	}
}

// BenchmarkRestore makes a table of a million records.
func BenchmarkRestore(b *testing.B) {
	all := recordsOf(filled(b).Freeze())
	for b.Loop() {
		r := writers.NewRestorer(&summed{}, writers.DefaultLimits(), everybody)
		for _, one := range all {
			if err := r.Add(one); err != nil {
				b.Fatal(err)
			}
		}
		if r.Table().Len() != many {
			b.Fatal(r.Table().Len())
		}
	}
}

package ids_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"holdfast/session"
	"holdfast/session/ids"
)

// running returns a Snowflake whose clock moves on by a microsecond with each look, so no millisecond's ids are used up
// and benchmarks measure no wait. The clock skips the first millisecond, in which a new Snowflake makes no ids.
func running(b *testing.B) *ids.Snowflake {
	b.Helper()
	var looks atomic.Int64
	g, err := ids.NewSnowflake(ids.SnowflakeConfig{Now: func() time.Time {
		return ids.TwitterEpoch().Add(time.Duration(looks.Add(1)) * time.Microsecond)
	}})
	if err != nil {
		b.Fatal(err)
	}
	looks.Store(1000)
	return g
}

func BenchmarkSnowflake(b *testing.B) {
	g := running(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := g.Next(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSnowflakeParallel(b *testing.B) {
	g := running(b)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := g.Next(context.Background()); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// BenchmarkSnowflakeOnTheWallClock takes ids as fast as they come. 4,096 a millisecond are 244 ns an id; the rest is
// the lateness of timers.
func BenchmarkSnowflakeOnTheWallClock(b *testing.B) {
	g, err := ids.NewSnowflake(ids.SnowflakeConfig{Policy: ids.Wait})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := g.Next(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkNextID measures what the state machine does for a session's id, on the wall clock as the other benchmarks.
func BenchmarkNextID(b *testing.B) {
	b.ReportAllocs()
	var mark session.ID
	for b.Loop() {
		id, err := session.NextID(mark, 1, session.MS(time.Now()))
		if err != nil {
			b.Fatal(err)
		}
		mark = id
	}
}

func BenchmarkUUIDv4(b *testing.B) { benchmarkUUID(b, uuid.NewRandom) }

func BenchmarkUUIDv4Parallel(b *testing.B) { benchmarkUUIDParallel(b, uuid.NewRandom) }

func BenchmarkUUIDv7(b *testing.B) { benchmarkUUID(b, uuid.NewV7) }

func BenchmarkUUIDv7Parallel(b *testing.B) { benchmarkUUIDParallel(b, uuid.NewV7) }

func benchmarkUUID(b *testing.B, next func() (uuid.UUID, error)) {
	b.Helper()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := next(); err != nil {
			b.Fatal(err)
		}
	}
}

func benchmarkUUIDParallel(b *testing.B, next func() (uuid.UUID, error)) {
	b.Helper()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := next(); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	for _, f := range ids.Forms() {
		b.Run(f.String(), func(b *testing.B) {
			b.ReportAllocs()
			text, id := make([]byte, 0, 32), uint64(1541815603606036480)
			for b.Loop() {
				text = f.Append(text[:0], id)
				id++
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	for _, f := range ids.Forms() {
		b.Run(f.String(), func(b *testing.B) {
			b.ReportAllocs()
			text := f.Format(1541815603606036480)
			for b.Loop() {
				if _, err := f.Parse(text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkUUIDText is for comparison with BenchmarkAppend.
func BenchmarkUUIDText(b *testing.B) {
	b.ReportAllocs()
	id := uuid.New()
	text := make([]byte, 36)
	for b.Loop() {
		var err error
		if text, err = id.MarshalText(); err != nil {
			b.Fatal(err)
		}
	}
	if len(text) != 36 {
		b.Fatal(len(text))
	}
}

package store_test

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"holdfast/tree"
	"holdfast/tree/store"
)

// summed is a digest that costs what the state's does: a sum of the first half of each SHA-256.
type summed struct{ hi, lo uint64 }

func (s *summed) Add(canonical []byte) {
	sum := sha256.Sum256(canonical)
	var carry uint64
	s.lo, carry = bits.Add64(s.lo, binary.BigEndian.Uint64(sum[8:]), 0)
	s.hi, _ = bits.Add64(s.hi, binary.BigEndian.Uint64(sum[:]), carry)
}

func (s *summed) Remove(canonical []byte) {
	sum := sha256.Sum256(canonical)
	var borrow uint64
	s.lo, borrow = bits.Sub64(s.lo, binary.BigEndian.Uint64(sum[8:]), 0)
	s.hi, _ = bits.Sub64(s.hi, binary.BigEndian.Uint64(sum[:]), borrow)
}

const many = 1_000_000

// pathAt has 35 bytes.
func pathAt(i int) string { return fmt.Sprintf("/services/%04d/instance-%012d", i%1000, i) }

func filled(b *testing.B, n int) (*store.Tree, store.At) {
	b.Helper()
	return filledWith(b, &summed{}, n)
}

func filledWith(b *testing.B, digest store.Digest, n int) (*store.Tree, store.At) {
	b.Helper()
	at := store.At{Stamp: tree.StampAt(1, 1), L: time.Second}
	t := store.New(digest, tree.DefaultLimits(), at)
	data := make([]byte, 100)
	for i := range n {
		at.Stamp++
		if o, _ := t.Do(at, tree.Transaction{Then: []tree.Op{
			tree.Create{Path: pathAt(i), Data: data, Kind: tree.Persistent, Parents: true},
		}}); o.Refused != nil {
			b.Fatal(o.Refused)
		}
	}
	return t, at
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkHeap reports the live heap of an entry with 100 bytes of data and a path of 35, among a million.
func BenchmarkHeap(b *testing.B) {
	before := heap()
	t, _ := filled(b, many)
	after := heap()
	for b.Loop() {
		t.Freeze()
	}
	b.ReportMetric(float64(after-before)/many, "B/entry")
	runtime.KeepAlive(t)
}

// BenchmarkFreeze freezes a million entries after a change, while an older root is held.
func BenchmarkFreeze(b *testing.B) {
	t, at := filled(b, many)
	old, held := t.Freeze(), t.Freeze()
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		at.Stamp++
		set := tree.Set{Path: pathAt(7), Version: tree.Any}
		if o, _ := t.Do(at, tree.Transaction{Then: []tree.Op{set}}); o.Refused != nil {
			b.Fatal(o.Refused)
		}
		b.StartTimer()
		held = t.Freeze()
	}
	if old.Len() != held.Len() {
		b.Fatal("an older root has changed")
	}
}

// BenchmarkCreate creates entries at random places among a million. 256 of them share a log entry: the tree is frozen
// after these.
func BenchmarkCreate(b *testing.B) {
	t, at := filled(b, many)
	data := make([]byte, 100)
	random := rand.New(rand.NewPCG(1, 2))
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		at.Stamp++
		path := fmt.Sprintf("/services/%04d/another-%d-%d", random.IntN(1000), random.Uint32(), n)
		if o, _ := t.Do(at, tree.Transaction{Then: []tree.Op{
			tree.Create{Path: path, Data: data, Kind: tree.Persistent},
		}}); o.Refused != nil {
			b.Fatal(o.Refused)
		}
		if n++; n%256 == 0 {
			t.Freeze()
		}
	}
}

// BenchmarkEndSession removes 40,000 ephemerals of one session among a million entries.
func BenchmarkEndSession(b *testing.B) {
	t, at := filled(b, many)
	const owned = 40_000
	for b.Loop() {
		b.StopTimer()
		at.Session = 7
		for i := range owned {
			at.Stamp++
			if o, _ := t.Do(at, tree.Transaction{Then: []tree.Op{
				tree.Create{Path: fmt.Sprintf("/services/%04d/ephemeral-%d", i%1000, i), Kind: tree.Ephemeral},
			}}); o.Refused != nil {
				b.Fatal(o.Refused)
			}
		}
		t.Freeze()
		b.StartTimer()
		if n, _ := t.ExpireSession(at, 7, nil); n.Removed != owned {
			b.Fatalf("removed %+v", n)
		}
	}
}

// BenchmarkGet reads at random places among a million entries.
func BenchmarkGet(b *testing.B) {
	t, _ := filled(b, many)
	r := t.Freeze()
	random := rand.New(rand.NewPCG(1, 2))
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := r.Get(pathAt(random.IntN(many))); !ok {
			b.Fatal("no entry")
		}
	}
}

// BenchmarkRestore makes a tree of a million records, and compares the digests.
func BenchmarkRestore(b *testing.B) {
	digest := &summed{}
	t, _ := filledWith(b, digest, many)
	var all []store.Record
	t.Freeze().Records(func(r store.Record) bool {
		all = append(all, r)
		return true
	})
	for b.Loop() {
		restored := &summed{}
		r := store.NewRestorer(restored, tree.DefaultLimits(), func(uint64) bool { return true })
		for _, one := range all {
			if err := r.Add(one); err != nil {
				b.Fatal(err)
			}
		}
		if _, err := r.Tree(); err != nil || *restored != *digest {
			b.Fatalf("digest %x, want %x; %v", *restored, *digest, err)
		}
	}
}

// BenchmarkQuotaWalk defines a quota for a million entries: each operation counts them all.
func BenchmarkQuotaWalk(b *testing.B) {
	t, at := filled(b, many-10_000)
	at.Principals = []tree.Principal{{Scheme: tree.Super}}
	limits := tree.QuotaPath + "/services/" + tree.QuotaLimitsName
	for b.Loop() {
		for _, op := range []tree.Op{
			tree.Create{Path: limits, Kind: tree.Persistent, Parents: true}, tree.Delete{Path: limits, Version: tree.Any},
		} {
			if o, _ := t.Do(at, tree.Transaction{Then: []tree.Op{op}}); o.Refused != nil {
				b.Fatal(o.Refused)
			}
		}
	}
}

// BenchmarkDeleteTree removes 10,000 entries deep below entries without an access list of their own, while the tree has
// a second list.
func BenchmarkDeleteTree(b *testing.B) {
	at := store.At{Stamp: tree.StampAt(1, 1), L: time.Second}
	for b.Loop() {
		b.StopTimer()
		t := deepTree(b, &at, tree.MaxDeleteTree)
		at.Stamp++
		b.StartTimer()
		if o, _ := t.Do(at, tree.Transaction{Then: []tree.Op{tree.DeleteTree{Path: "/d"}}}); o.Refused != nil {
			b.Fatal(o.Refused)
		}
	}
}

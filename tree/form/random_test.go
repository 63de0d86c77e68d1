package form_test

import (
	"reflect"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	logv1 "holdfast/proto/holdfast/log/v1"
	"holdfast/tree"
	"holdfast/tree/form"
)

func drawPath(t *rapid.T) string {
	return rapid.StringMatching(`(/[a-zä%]{1,5}){1,4}`).Draw(t, "path")
}

func drawData(t *rapid.T) []byte {
	if rapid.Bool().Draw(t, "null") {
		return nil
	}
	return rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "data")
}

func drawACL(t *rapid.T) tree.ACL {
	return rapid.SampledFrom([]tree.ACL{
		nil, {}, tree.Open(), {{Permissions: tree.Read | tree.Admin, Scheme: tree.Digest, ID: "a:\xfe"}},
	}).Draw(t, "acl")
}

func drawVersion(t *rapid.T) int64 {
	return rapid.Int64Range(tree.Any, tree.MaxVersion).Draw(t, "version")
}

func drawOp(t *rapid.T) tree.Op {
	path := drawPath(t)
	switch rapid.IntRange(0, 6).Draw(t, "op") {
	case 0:
		c := tree.Create{
			Path: path, Sequential: rapid.Bool().Draw(t, "sequential"), Data: drawData(t),
			Kind: tree.Kind(rapid.IntRange(1, 3).Draw(t, "kind")), Parents: rapid.Bool().Draw(t, "parents"), ACL: drawACL(t),
		}
		if c.Kind == tree.Ephemeral {
			c.LockDelay = time.Duration(rapid.IntRange(0, 60_000).Draw(t, "lock_delay")) * time.Millisecond
		}
		return c
	case 1:
		ttl := time.Duration(rapid.Int64Range(1, tree.MaxTTL.Milliseconds()).Draw(t, "ttl")) * time.Millisecond
		return tree.Create{Path: path, Kind: tree.Expiring, TTL: ttl}
	case 2:
		return tree.Set{Path: path, Data: drawData(t), Version: drawVersion(t)}
	case 3:
		return tree.Delete{Path: path, Version: drawVersion(t)}
	case 4:
		return tree.DeleteTree{Path: path}
	case 5:
		return tree.SetACL{Path: path, ACL: drawACL(t), Version: drawVersion(t)}
	default:
		return tree.Check{Path: path, Version: drawVersion(t)}
	}
}

func drawOps(t *rapid.T) (ops []tree.Op) {
	for range rapid.IntRange(0, 4).Draw(t, "ops") {
		ops = append(ops, drawOp(t))
	}
	return ops
}

func drawTransaction(t *rapid.T) (x tree.Transaction) {
	for range rapid.IntRange(0, 2).Draw(t, "conditions") {
		x.If = append(x.If, tree.Condition{
			Path: drawPath(t), Property: tree.Property(rapid.IntRange(1, 6).Draw(t, "property")),
			Is: tree.Comparison(rapid.IntRange(1, 4).Draw(t, "is")), Value: rapid.Uint64().Draw(t, "value"),
		})
	}
	x.Then, x.Else = drawOps(t), drawOps(t)
	return x
}

// Every write reads as what was written, and its bytes are those of the generated code.
func TestRandomWrites(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := tree.NumberedWrite{
			Session: rapid.Uint64Range(1, 1<<64-1).Draw(t, "session"),
			// The number above acked leaves room for it.
			Attachment: rapid.Uint64Range(1, 1<<64-1).Draw(t, "attachment"),
			Acked:      rapid.Uint64Range(0, 1<<64-2).Draw(t, "acked"),
		}
		w.Number = rapid.Uint64Range(w.Acked+1, 1<<64-1).Draw(t, "number")
		w.ReadsBefore = rapid.Bool().Draw(t, "reads before")
		if w.Void = rapid.IntRange(0, 9).Draw(t, "void") == 0; !w.Void {
			for range rapid.IntRange(0, 3).Draw(t, "principals") {
				w.Principals = append(w.Principals, tree.Principal{
					Scheme: rapid.StringN(1, 5, 20).Draw(t, "scheme"), ID: string(drawData(t)),
				})
			}
			w.Transaction = drawTransaction(t)
			if rapid.Bool().Draw(t, "will") {
				w.Will = &tree.Will{
					Transaction: tree.Transaction{Then: []tree.Op{tree.DeleteTree{Path: drawPath(t)}}},
					OnClose:     rapid.Bool().Draw(t, "on close"),
				}
			}
		}
		prefix := []byte("before")
		b, err := form.AppendWrite(prefix, w)
		if err != nil {
			t.Fatal(err)
		}
		b = b[len(prefix):]
		got, err := form.ParseWrite(b)
		if err != nil || !reflect.DeepEqual(got, w) {
			t.Fatalf("got %+v, %v\nwant %+v", got, err, w)
		}
		m := &logv1.Command{}
		if err = proto.Unmarshal(b, m); err != nil {
			t.Fatal(err)
		}
		generated, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
		if err != nil || string(generated) != string(b) {
			t.Fatalf("the generated code writes %x, %v\nwant %x", generated, err, b)
		}
		// Whatever is cut off, the rest is no write, or none at all.
		if cut := rapid.IntRange(0, len(b)-1).Draw(t, "cut"); len(b) > 0 {
			if got, err = form.ParseWrite(b[:cut]); err == nil {
				t.Fatalf("%d of %d bytes read as %+v", cut, len(b), got)
			}
		}
	})
}

// BenchmarkWrite writes and reads a create of 100 bytes.
func BenchmarkWrite(b *testing.B) {
	w := tree.NumberedWrite{
		Session: 1 << 60, Attachment: 1 << 20, Number: 1 << 20, Acked: 1<<20 - 1,
		Principals: []tree.Principal{{Scheme: tree.IP, ID: "10.1.2.3"}},
		Transaction: tree.Transaction{Then: []tree.Op{
			tree.Create{Path: "/services/billing/instance-17", Data: make([]byte, 100), Kind: tree.Ephemeral},
		}},
	}
	buffer, err := form.AppendWrite(nil, w)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if buffer, err = form.AppendWrite(buffer[:0], w); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("parse", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := form.ParseWrite(buffer); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkEntry writes and reads the record of an entry that shares its access list.
func BenchmarkEntry(b *testing.B) {
	one := everyEntry()[1]
	one.Data = make([]byte, 100)
	var writing, reading form.Lists
	if _, err := reading.ParseEntry(writing.AppendEntry(nil, &one)); err != nil {
		b.Fatal(err)
	}
	var buffer []byte
	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			buffer = writing.AppendEntry(buffer[:0], &one)
		}
	})
	b.Run("parse", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := reading.ParseEntry(buffer); err != nil {
				b.Fatal(err)
			}
		}
	})
}

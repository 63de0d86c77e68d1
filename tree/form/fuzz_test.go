package form_test

import (
	"reflect"
	"testing"

	"holdfast/test/fuzz/bound"
	"holdfast/tree"
	"holdfast/tree/form"
	"holdfast/tree/store"
)

// inMemory bounds the memory that bytes may need: for reading, and for writing again. The most expensive bytes are an
// operation with a path of one.
func inMemory() bound.Cost { return bound.Cost{PerByte: 1 << 9, Fixed: 1 << 18} }

// FuzzCommand: what reads as a command of the tree is written again, and then reads the same.
func FuzzCommand(f *testing.F) {
	for _, w := range everyWrite() {
		b, err := form.AppendWrite(nil, w)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	acknowledge, _ := form.AppendAcknowledge(nil, []tree.Acknowledgement{{Session: 1, UpTo: 300}})
	f.Add(acknowledge)
	reap, _ := form.AppendReap(nil, []store.Reapable{{Path: "/a", Created: 1}, {Path: "/b"}})
	f.Add(reap)
	f.Fuzz(func(t *testing.T, b []byte) {
		inMemory().Hold(t, len(b), func() {
			switch form.KindOf(b) {
			case form.Write:
				again(t, b, form.ParseWrite, form.AppendWrite)
			case form.Acknowledge:
				again(t, b, form.ParseAcknowledge, form.AppendAcknowledge)
			case form.Reap:
				again(t, b, form.ParseReap, form.AppendReap)
			case form.Other:
			}
		})
	})
}

// FuzzResult: what reads as a result or a will is written again, and then reads the same.
func FuzzResult(f *testing.F) {
	for _, one := range everyResult() {
		f.Add(form.AppendResult(nil, one))
	}
	f.Add(everyWriter(f)[0].Will.Data)
	f.Fuzz(func(t *testing.T, b []byte) {
		inMemory().Hold(t, len(b), func() {
			again(t, b, form.ParseResult, func(b []byte, one tree.Result) ([]byte, error) {
				return form.AppendResult(b, one), nil
			})
			again(t, b, form.ParseWill, form.AppendWill)
			again(t, b, form.ParseLimits, func(b []byte, l tree.Limits) ([]byte, error) {
				return form.AppendLimits(b, l), nil
			})
		})
	})
}

// FuzzTreeRecord: what reads as a record of a snapshot is written again, and then reads the same.
func FuzzTreeRecord(f *testing.F) {
	var lists form.Lists
	for _, one := range everyEntry() {
		f.Add(lists.AppendEntry(nil, &one))
	}
	for _, one := range everyWriter(f) {
		f.Add(form.AppendWriter(nil, &one))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		inMemory().Hold(t, len(b), func() {
			if one, err := new(form.Lists).ParseEntry(b); err == nil {
				got, err := new(form.Lists).ParseEntry(new(form.Lists).AppendEntry(nil, &one))
				wantSame(t, got, err, one)
			}
			if one, err := form.ParseWriter(b); err == nil {
				got, err := form.ParseWriter(form.AppendWriter(nil, &one))
				wantSame(t, got, err, one)
			}
		})
	})
}

// again checks that what reads well can be written and reads the same then. Bytes may differ from those that came: a
// number may have more bytes than it needs.
func again[T any](t *testing.T, b []byte, parse func([]byte) (T, error), write func([]byte, T) ([]byte, error)) {
	t.Helper()
	one, err := parse(b)
	if err != nil {
		return
	}
	written, err := write(nil, one)
	if err != nil {
		t.Fatalf("%+v was read and cannot be written: %v", one, err)
	}
	if got, err := parse(written); err != nil || !reflect.DeepEqual(got, one) {
		t.Fatalf("got %+v, %v\nwant %+v", got, err, one)
	}
}

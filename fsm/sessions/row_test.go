package sessions

import (
	"bytes"
	"reflect"
	"testing"

	logv1 "holdfast/proto/holdfast/log/v1"
	"holdfast/session"
)

// full returns a Row with a value in every field.
func full() Row {
	return Row{
		ID: 1<<56 | 5<<16, Attachment: 7, Instance: 8, Attempt: 9, OpenedIndex: 10, OpenedMS: 11,
		Labels: &session.Labels{{Key: "app", Value: "billing"}}, TimeoutMS: 12, Owner: 3,
	}
}

// I6: blocks and snapshots keep every field of a Row, and the digest has it. The test names a field that one of them
// leaves out.
func TestI6EveryFieldIsKept(t *testing.T) {
	want, table := full(), New()
	table.Set(&want)
	got, _ := table.Get(want.ID)
	m := &logv1.Session{}
	want.Encode(m)
	decoded, err := Decode(m)
	if err != nil {
		t.Fatal(err)
	}
	for i := range reflect.TypeFor[Row]().NumField() {
		name := reflect.TypeFor[Row]().Field(i).Name
		a, b, c := reflect.ValueOf(want).Field(i), reflect.ValueOf(*got).Field(i), reflect.ValueOf(*decoded).Field(i)
		if a.IsZero() {
			t.Errorf("%s: give it a value in the sample", name)
		}
		if !reflect.DeepEqual(a.Interface(), b.Interface()) {
			t.Errorf("%s: blocks do not keep it: got %v, want %v", name, b, a)
		}
		if !reflect.DeepEqual(a.Interface(), c.Interface()) {
			t.Errorf("%s: snapshots do not have it: got %v, want %v", name, c, a)
		}
		changed := full()
		if reflect.ValueOf(&changed).Elem().Field(i).SetZero(); bytes.Equal(changed.Canonical(nil), want.Canonical(nil)) {
			t.Errorf("%s: the digest does not have it", name)
		}
	}
}

// Readers see every field of a session.
func TestSessionHasEveryField(t *testing.T) {
	row := full()
	shown := reflect.ValueOf(row.Session())
	for i := range shown.NumField() {
		name := shown.Type().Field(i).Name
		if local := name == "Local"; shown.Field(i).IsZero() != local { // the state has no local sessions
			t.Errorf("%s is %v", name, shown.Field(i))
		}
	}
}

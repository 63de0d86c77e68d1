package storage

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/test/fuzz/bound"
)

// FuzzIdentity: whatever the identity file holds, it is this node's and counts on, or it is refused and left as it is.
func FuzzIdentity(f *testing.F) {
	f.Add(
		[]byte(
			`{"format":1,"cluster_id":"c","node":1,"incarnation":7,"directory":"1ad88d0b44370997","key":"aa00000000000000000000000000000000000000000000000000000000000000",` +
				`"founders":{"1":"1ad88d0b44370997"},"log":5}`,
		),
	)
	f.Add([]byte(`{"format":1,"cluster_id":"c","node":1,"incarnation":7,"new":{}}`))
	f.Add(
		[]byte(
			`{"format":1,"cluster_id":"c","node":1,"incarnation":7,"directory":"1ad88d0b44370997","key":"aa00000000000000000000000000000000000000000000000000000000000000",` +
				`"founders":{"1":"1ad88d0b44370997"},"log":7}`,
		),
	)
	f.Add([]byte(`{"format":1,"cluster_id":"c","node":1,"incarnation":7,"directory":"1ad88d0b44370997","key":"aa00000000000000000000000000000000000000000000000000000000000000","log":8}`))
	f.Add(
		[]byte(`{"format":1,"cluster_id":"c","node":1,"incarnation":7,"directory":"1ad88d0b44370997","key":"aa00000000000000000000000000000000000000000000000000000000000000","founded":1,"log":7}`),
	)
	f.Add([]byte(`{"format":2,"cluster_id":"c","node":1,"incarnation":7}`))
	f.Add([]byte(`{"format":1,"cluster_id":"c","node":257,"incarnation":18446744073709551615}`))
	f.Add([]byte(`{"format":1,"cluster_id":"c","node":1,"incarnation":18446744073709551615}`))
	f.Add([]byte(`{"format":1,"cluster_id":"c","node":1,"incarnation":7,"directory":"1ad88d0b44370997",` +
		`"key":"aa00000000000000000000000000000000000000000000000000000000000000","log":7,"old":true}`))
	f.Add([]byte(``))
	f.Add([]byte(strings.Repeat("[", 20_000)))
	dir := f.TempDir()
	path := filepath.Join(dir, IdentityFile)
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		before, _ := ReadIdentity(dir)
		var after Identity
		var err error
		want := Identity{Format: session.DirectoryFormat, ClusterID: "c", Node: 1}
		bound.Cost{PerByte: 2 << 10, Fixed: 1 << 20}.Hold(t, len(b), func() {
			after, _, err = countStart(dir, want, time.Unix(1_800_000_000, 0))
		})
		if err != nil {
			if now, readErr := os.ReadFile(path); readErr != nil || !slices.Equal(now, b) {
				t.Errorf("refused with %v and changed to %q, %v", err, now, readErr)
			}
			return
		}
		if before.Old {
			if after.Old || after.Founders != nil || after.Directory == before.Directory {
				t.Errorf("%q, an older copy, became %+v", b, after)
			}
			return
		}
		if after.ClusterID != "c" || after.Node != 1 || after.Incarnation <= before.Incarnation {
			t.Errorf("%q became %+v", b, after)
		}
		if again, err := ReadIdentity(dir); err != nil || !reflect.DeepEqual(again, after) {
			t.Errorf("on disk is %+v, %v, want %+v", again, err, after)
		}
	})
}

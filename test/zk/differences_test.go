//go:build e2e

package zk

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"holdfast/test/timeout"
	"holdfast/tree"
	"holdfast/zk/jute"
)

// differences are those of docs/zookeeper.md that a script can meet. Each says whether it explains a pair of values.
// Those without such a function are met by the code that names them.
var differences = map[string]func(s *step, theirs, ours value) bool{
	"root": func(s *step, theirs, ours value) bool {
		ofRoot := strings.Contains(s.text, `"/"`) || strings.Contains(s.text, `"/zookeeper"`)
		return theirs.kind == zxid && theirs.number == 0 ||
			theirs.name == "data" && theirs.text == `"" null false` && ours.text == `"" null true` && ofRoot
	},
	"empty-path": func(s *step, theirs, ours value) bool {
		read := slices.Contains([]jute.Op{
			jute.Exists, jute.GetData, jute.GetACL, jute.GetChildren, jute.GetChildren2, jute.GetChildrenNumber,
		}, s.op)
		return read && s.path == "" && codes(theirs, ours, jute.OK, jute.NoNode)
	},
	"impossible-path": func(s *step, theirs, ours value) bool {
		return tree.CheckPath(s.path) != nil && (s.op == jute.AddWatch && codes(theirs, ours, jute.OK, jute.BadArguments) ||
			s.op == jute.RemoveWatches && codes(theirs, ours, jute.OK, jute.NoWatcher))
	},
	"check-watches": func(s *step, theirs, ours value) bool {
		return s.op == jute.CheckWatches && (codes(theirs, ours, jute.OK, jute.NoWatcher) ||
			tree.CheckPath(s.path) != nil && codes(theirs, ours, jute.MarshallingError, jute.NoWatcher))
	},
	"acl-bits": func(_ *step, theirs, ours value) bool {
		return theirs.name == "acl" && grants(theirs.text) == ours.text
	},
	"no-config": func(s *step, theirs, ours value) bool {
		of := s.path == "/zookeeper" || strings.Contains(s.text, `"/zookeeper"`)
		switch theirs.name {
		case "cversion", "numChildren", "children":
			return of && theirs.text != ours.text
		case "number":
			var there, here int
			_, err := fmt.Sscan(theirs.text+" "+ours.text, &there, &here)
			return err == nil && there == here+1 && (of || s.path == "/")
		default:
			return false
		}
	},
	"which-refusal": func(s *step, theirs, ours value) bool {
		for _, code := range []jute.Code{jute.NoNode, jute.EphemeralParent} {
			as := strings.Replace(theirs.text, fmt.Sprint(jute.NoAuth), fmt.Sprint(code), 1)
			if as != theirs.text && as == ours.text {
				return true
			}
		}
		hidden := strings.Replace(theirs.text, fmt.Sprint(jute.NoNode), fmt.Sprint(jute.NoAuth), 1)
		return strings.Contains(s.text, "check ") && hidden != theirs.text && hidden == ours.text
	},
	"root-sequence": nil,
	"deleted-once":  nil,
	"unreadable":    nil,
	"hidden-event":  nil,
	"newest-kind":   nil,
	"half-a-watch":  nil,
	"missed-events": nil,
}

// mixedDifferences are those that TestMixedWatches meets, and no script of TestAsZooKeeper.
var mixedDifferences = []string{"newest-kind", "half-a-watch", "missed-events"}

// codes reports whether the values are these codes.
func codes(theirs, ours value, ofTheirs, ofOurs jute.Code) bool {
	return theirs.name == "code" && theirs.text == fmt.Sprint(ofTheirs) && ours.text == fmt.Sprint(ofOurs)
}

// grants returns an access list without bits that are no permissions, without grants of nothing, and without any that
// it then has twice.
func grants(list string) string {
	var kept []string
	for one := range strings.SplitSeq(list, ", ") {
		var perms int
		var who string
		if _, err := fmt.Sscanf(one, "%d %s", &perms, &who); err != nil {
			return list
		}
		if one = fmt.Sprintf("%d %s", perms&31, who); perms&31 != 0 && !slices.Contains(kept, one) {
			kept = append(kept, one)
		}
	}
	return strings.Join(kept, ", ")
}

// setBack returns ZooKeeper's events without those that a setWatches tells there and not here.
func (s *stage) setBack(next *step, client int, theirs, ours []string) (left []string) {
	if next.watches == nil || client != next.client {
		return theirs
	}
	for _, e := range theirs {
		kind, path, _ := strings.Cut(e, " 3 ")
		twice := slices.Contains(next.watches[0], path) && slices.Contains(next.watches[2], path)
		switch {
		case slices.Contains(ours, e) && !slices.Contains(left, e), slices.Contains(left, e) && !twice:
			left = append(left, e)
		case slices.Contains(left, e) && kind == "2":
			s.met["deleted-once"]++
		case s.unreadable(client, path):
			s.met["unreadable"]++
			s.parted = true
		default:
			left = append(left, e)
		}
	}
	return left
}

// hidden returns the nodes' events without those of watches that are there no more in ZooKeeper: what fired them before
// was hidden from their client.
func (s *stage) hidden(theirs, ours []string) (left []string) {
	for _, e := range ours {
		_, path, _ := strings.Cut(e, " 3 ")
		if !slices.Contains(theirs, e) && slices.ContainsFunc(s.closed, func(closed string) bool {
			return strings.HasPrefix(path, closed) || tree.Below(closed, path) // as a child of it
		}) {
			s.met["hidden-event"]++
			s.parted = true
			continue
		}
		left = append(left, e)
	}
	return left
}

// unreadable reports whether a client may not read an entry here, or what it would inherit its access list from.
func (s *stage) unreadable(client int, path string) bool {
	for ; path != ""; path = tree.Parent(path) {
		var e jute.Encoder
		e.String(path)
		e.Bool(false)
		if r, err := s.ours[client].ask(jute.GetData, e.Bytes()); err != nil || r.code != jute.NoNode {
			return err == nil && r.code == jute.NoAuth
		}
	}
	return false
}

// rootSequence checks that the root has had one child more than ZooKeeper's, and evens that out: otherwise no two
// sequential names at the root would be equal.
func rootSequence(t *testing.T, theirs, ours servers, met map[string]int) {
	t.Helper()
	var versions [2]int32
	for i, s := range []servers{theirs, ours} {
		p := &peer{address: s.addresses[0]}
		timeout.Check(t, p.connect())
		versions[i] = p.childrenVersion(t)
		if i == 0 {
			p.must(t, jute.Create, func(e *jute.Encoder) {
				e.String("/even")
				e.Buffer(nil)
				e.ACLs([]jute.ACL{{Perms: 31, Scheme: "world", ID: "anyone"}})
				e.Int(0)
			})
			p.must(t, jute.Delete, func(e *jute.Encoder) {
				e.String("/even")
				e.Int(-1)
			})
		}
		p.must(t, jute.CloseSession, func(*jute.Encoder) {})
		p.drop()
	}
	const apart = 2 // a child counts when it is made, and when it is gone
	if versions[1] != versions[0]+apart {
		t.Fatalf("the root's cversion is %d, ZooKeeper's %d: want %d more", versions[1], versions[0], apart)
	}
	met["root-sequence"]++
}

// must sends a request that is to be answered with OK, and returns the record of the answer.
func (p *peer) must(t *testing.T, op jute.Op, request func(e *jute.Encoder)) []byte {
	t.Helper()
	var e jute.Encoder
	request(&e)
	r, err := p.ask(op, e.Bytes())
	if err != nil || r.code != jute.OK {
		t.Fatalf("%v: %v %v", op, r.code, err)
	}
	return r.body
}

// childrenVersion returns the root's cversion.
func (p *peer) childrenVersion(t *testing.T) int32 {
	t.Helper()
	body := p.must(t, jute.Exists, func(e *jute.Encoder) {
		e.String("/")
		e.Bool(false)
	})
	d := jute.NewDecoder(body)
	for _, name := range []string{"czxid", "mzxid", "ctime", "mtime"} {
		d.Long(name)
	}
	d.Int("version")
	return d.Int("cversion")
}

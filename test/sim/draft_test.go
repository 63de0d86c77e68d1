package sim

import (
	"fmt"
	"time"

	"holdfast/test/sim/check"
	"holdfast/tree"
)

// will draws a session's will.
func (x *author) will(tag uint64) tree.Will {
	will := tree.Will{OnClose: x.draw(2) == 0}
	if x.draw(4) > 0 {
		will.Transaction.Then = []tree.Op{tree.Set{
			Path: []string{x.register(), x.locked()}[x.draw(2)], Version: tree.Any,
			Data: fmt.Appendf(nil, "the will of %d", tag),
		}}
	}
	return will
}

func (x *author) register() string { return fmt.Sprintf("%s/r%d", deskPath, x.draw(3)) }

// draft draws a transaction. All begin with a condition that holds and has the tag. It returns the entry that the
// transaction is about as well.
func (x *author) draft(h hand, tag uint64) (tree.Transaction, string) {
	const line, grove = deskPath + "/line", deskPath + "/grove"
	path, other := x.register(), x.register()
	version, data := x.desk.version(path), fmt.Appendf(nil, "%s %d", x.name, tag)
	set := tree.Set{Path: path, Data: data, Version: tree.Any}
	t := tree.Transaction{If: []tree.Condition{
		{Path: tree.Root, Property: tree.Exists, Is: tree.NotEqual, Value: tag},
	}}
	if x.draw(4) == 0 {
		op, about := x.blindly(data)
		t.Then = []tree.Op{op}
		return t, about
	}
	if x.draw(5) == 0 {
		var about string
		t.Then, about = x.privately(data)
		if x.draw(4) == 0 {
			t.If = append(t.If, tree.Condition{Path: about, Property: tree.Exists, Is: tree.Equal, Value: 1})
		}
		return t, about
	}
	switch x.draw(15) {
	case 0, 1:
		t.Then = []tree.Op{tree.Set{Path: path, Data: data, Version: version}}
	case 2, 3:
		t.Then = []tree.Op{set}
	case 4:
		t.If = append(t.If, tree.Condition{
			Path: path, Property: tree.DataVersion, Is: tree.Equal, Value: uint64(version),
		})
		t.Then, t.Else = []tree.Op{set}, []tree.Op{tree.Set{Path: other, Data: data, Version: tree.Any}}
	case 5, 6:
		t.Then = []tree.Op{tree.Create{Path: path, Kind: tree.Persistent, Parents: true, Data: data}}
	case 7: // refused at its end, unless the version was known; then none of it takes effect
		t.Then = []tree.Op{
			set,
			tree.Create{Path: line + "/p-", Kind: tree.Persistent, Sequential: true, Parents: true, Data: data},
			tree.Check{Path: path, Version: version + 1},
		}
	case 8:
		t.Then = []tree.Op{
			tree.Create{Path: line + "/e-", Kind: tree.Ephemeral, Sequential: true, Parents: true, Data: data},
		}
	case 9:
		t.Then = []tree.Op{tree.DeleteTree{Path: []string{line, grove, path}[x.draw(3)]}}
	case 10:
		t.Then = []tree.Op{
			tree.Create{Path: grove + "/a/b", Kind: tree.Persistent, Parents: true, Data: data},
			tree.Set{Path: grove + "/a", Version: tree.Any, Data: data},
			tree.Delete{Path: grove + "/a/b", Version: tree.Any},
		}
	case 11:
		delay := time.Duration(x.draw(2)) * 3 * time.Second
		t.Then = []tree.Op{tree.Create{
			Path: fmt.Sprintf("%s/own/%d", deskPath, tag), Kind: tree.Ephemeral, Parents: true, Data: data, LockDelay: delay,
		}}
	case 12:
		t.Then = []tree.Op{
			tree.Create{Path: deskPath + "/box", Kind: tree.Container, Data: data},
			tree.Create{Path: fmt.Sprintf("%s/box/%d", deskPath, h.ID()), Kind: tree.Ephemeral, Data: data},
		}
	case 13:
		t.Then = []tree.Op{tree.Create{
			Path: fmt.Sprintf("%s/passing-%d", deskPath, x.draw(3)), Kind: tree.Expiring, Data: data,
			TTL: time.Duration(1+x.draw(9)) * time.Second,
		}}
	default:
		t.Then = []tree.Op{tree.Delete{Path: path, Version: version}}
	}
	return t, path
}

// blindFor is how long authors write to an entry that is checked without stamps before they start another entry. Each
// has a few dozen operations, so that the search for an order is short.
const blindFor = 8 * time.Second

func (x *author) blindPath() string {
	return fmt.Sprintf("%s/%d-%d", check.BlindPath, x.w.record.Now()/blindFor, x.draw(2))
}

// blindly draws an operation on an entry that is judged without stamps.
func (x *author) blindly(data []byte) (op tree.Op, about string) {
	about = x.blindPath()
	switch x.draw(8) {
	case 0, 1, 2:
		return tree.Create{Path: about, Kind: tree.Persistent, Parents: true, Data: data}, about
	case 3:
		return tree.Delete{Path: about, Version: tree.Any}, about
	case 4, 5:
		return tree.Set{Path: about, Version: x.desk.version(about), Data: data}, about
	default:
		return tree.Set{Path: about, Version: tree.Any, Data: data}, about
	}
}

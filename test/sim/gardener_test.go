package sim

import (
	"context"
	"fmt"
	"time"

	"holdfast/client"
	"holdfast/tree"
)

// burst is how many entries a gardener makes or removes with one transaction: more than may be unsent to a connection
// where the simulation keeps little.
const burst = 12

// gardener is a tenant that changes the watched part of the tree all the time.
type gardener struct {
	*tenant
	made int // numbers the data and the ephemerals
}

func (w *world) gardener(name string) *gardener { return &gardener{tenant: w.known(name)} }

// garden holds one session after the other until ctx ends, and changes the tree with each. It ends some of them.
func (x *gardener) garden(ctx context.Context) {
	for ctx.Err() == nil {
		s := x.open(ctx, 30*time.Second)
		if s == nil {
			sleep(ctx, 500*time.Millisecond) // the open may have been refused at once
			continue
		}
		for range 15 + x.draw(40) {
			if ctx.Err() != nil || s.Err() != nil {
				break
			}
			x.change(ctx, s)
			sleep(ctx, x.between(50*time.Millisecond, 900*time.Millisecond))
		}
		if ctx.Err() == nil && x.draw(2) == 0 {
			x.close(ctx, s)
		}
	}
}

// change makes one transaction. The replicas record its outcome, so the answer does not matter.
func (x *gardener) change(ctx context.Context, s *client.Session) {
	ctx, cancel := context.WithTimeout(ctx, givesUp)
	defer cancel()
	_, _ = s.Tree().Transact(ctx, tree.Transaction{Then: x.ops()})
}

// ops draws the operations of a transaction.
func (x *gardener) ops() []tree.Op {
	x.made++
	data := fmt.Appendf(nil, "%s %d", x.name, x.made)
	if x.draw(3) == 0 {
		return x.veil(data)
	}
	all := beds()
	bed, other := all[x.draw(len(all))], all[x.draw(len(all))]
	create := func(path string) tree.Op {
		return tree.Create{Path: path, Kind: tree.Persistent, Parents: true, Data: data}
	}
	set := func(path string) tree.Op { return tree.Set{Path: path, Version: tree.Any, Data: data} }
	remove := func(path string) tree.Op { return tree.Delete{Path: path, Version: tree.Any} }
	switch x.draw(12) {
	case 0, 1, 2:
		return []tree.Op{set(bed)}
	case 3, 4:
		return []tree.Op{create(bed)}
	case 5, 6:
		return []tree.Op{remove(bed)}
	case 7: // two changes of one entry with one stamp, and the changed children in between
		return []tree.Op{remove(bed), create(bed), set(bed)}
	case 8:
		return []tree.Op{set(bed), set(other), set(bed)}
	case 9:
		return []tree.Op{tree.DeleteTree{Path: all[1+x.draw(len(all)-1)]}}
	case 10:
		path := fmt.Sprintf("%s/b/e-%d", plotPath, x.made)
		return []tree.Op{tree.Create{Path: path, Kind: tree.Ephemeral, Parents: true, Data: data}}
	default:
		return x.row(create, remove)
	}
}

// row makes a row of entries at once, or removes one.
func (x *gardener) row(create, remove func(path string) tree.Op) (ops []tree.Op) {
	do := []func(string) tree.Op{create, remove}[x.draw(2)]
	for i := range burst {
		ops = append(ops, do(fmt.Sprintf("%s/a/row-%02d", plotPath, i)))
	}
	return ops
}

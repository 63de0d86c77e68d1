package clientport

import "holdfast/session"

// maxTreeRequests is how many requests of the tree may be under way on a stream: those that wait at the node, and those
// whose answers the client has not taken. The reader stops there, as it does at the node's own bounds (G8).
const maxTreeRequests = 4096

// keptTreeRequests is how many requests of the tree a stream keeps memory for.
const keptTreeRequests = 64

// treeKind is what a request of the tree is.
type treeKind uint8

const (
	treeReads treeKind = iota
	treeWrites
	treeAdds
	treeRemoves
)

// treeRequest is one request of the tree under way.
type treeRequest struct {
	seq  uint64
	kind treeKind
}

// treeRequests are the requests of the tree under way on a stream, by their keys at the node: the client may use a seq
// twice.
type treeRequests struct {
	all map[uint64]treeRequest
	// newest is the highest key, most the number of requests that were under way at once since all is there.
	newest uint64
	most   int
	// watching says that the client has added watches.
	watching bool
	// room is closed when there are fewer; nil: the reader does not wait.
	room chan struct{}
}

// beginTree counts a request of the tree as under way and returns its key, or says that the stream takes no more. The
// caller calls endTree.
func (r *streamState) beginTree(q treeRequest) (key uint64, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.draining {
		return 0, session.ErrStopping
	}
	if r.tree.all == nil {
		r.tree.all = map[uint64]treeRequest{}
	}
	if len(r.tree.all) == 0 {
		r.running++
		r.updateBusy()
	}
	r.tree.newest++
	r.tree.all[r.tree.newest] = q
	r.tree.most = max(r.tree.most, len(r.tree.all))
	return r.tree.newest, nil
}

// endTree ends a request of the tree, and returns it; false if no such request is under way.
func (r *streamState) endTree(key uint64) (treeRequest, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	q, under := r.tree.all[key]
	if !under {
		return treeRequest{}, false
	}
	delete(r.tree.all, key)
	if r.tree.room != nil && len(r.tree.all) < maxTreeRequests {
		close(r.tree.room)
		r.tree.room = nil
	}
	if len(r.tree.all) == 0 {
		if r.tree.most > keptTreeRequests {
			r.tree.all, r.tree.most = nil, 0 // a map keeps the memory of a burst
		}
		r.ended()
	}
	return q, true
}

// treeRoom returns nil while more requests of the tree may be under way, and otherwise a channel that is closed once
// that may be so.
func (r *streamState) treeRoom() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.tree.all) < maxTreeRequests {
		return nil
	}
	if r.tree.room == nil {
		r.tree.room = make(chan struct{})
	}
	return r.tree.room
}

// watches notes that the client has watches: the stream is not idle any more.
func (r *streamState) watches() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tree.watching = true
	r.updateBusy()
}

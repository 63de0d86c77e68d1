package clientport

import "holdfast/session"

// maxTreeRequests is the largest number of requests of the tree in flight on a stream: requests that wait at the node,
// and requests with unread answers. The reader stops there, as it does at the node's own bounds (G8 request bounds).
const maxTreeRequests = 4096

// keptTreeRequests is the number of requests of the tree for which a stream keeps memory.
const keptTreeRequests = 64

// treeKind is the kind of a request of the tree.
type treeKind uint8

const (
	treeReads treeKind = iota
	treeWrites
	treeAdds
	treeRemoves
)

// treeRequest is one request of the tree in flight.
type treeRequest struct {
	seq  uint64
	kind treeKind
}

// treeRequests are the requests of the tree in flight on a stream, by their keys at the node: the client may reuse a
// seq.
type treeRequests struct {
	all map[uint64]treeRequest
	// newest is the highest key, peak the largest number of requests in flight at once since all was made.
	newest uint64
	peak   int
	// watching says that the client has added watches.
	watching bool
	// fewer is closed when there are fewer requests; nil: the reader does not wait.
	fewer chan struct{}
}

// beginTree counts a request of the tree in flight and returns its key, or the reason why the stream accepts no more
// requests. The caller calls endTree.
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
	r.tree.peak = max(r.tree.peak, len(r.tree.all))
	return r.tree.newest, nil
}

// endTree ends a request of the tree, and returns it; false if there is no such request in flight.
func (r *streamState) endTree(key uint64) (treeRequest, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	q, under := r.tree.all[key]
	if !under {
		return treeRequest{}, false
	}
	delete(r.tree.all, key)
	if r.tree.fewer != nil && len(r.tree.all) < maxTreeRequests {
		close(r.tree.fewer)
		r.tree.fewer = nil
	}
	if len(r.tree.all) == 0 {
		if r.tree.peak > keptTreeRequests {
			r.tree.all, r.tree.peak = nil, 0 // a map keeps the memory of a burst
		}
		r.ended()
	}
	return q, true
}

// treeCapacity returns nil while more requests of the tree may be in flight, and otherwise a channel that is closed
// once that changes.
func (r *streamState) treeCapacity() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.tree.all) < maxTreeRequests {
		return nil
	}
	if r.tree.fewer == nil {
		r.tree.fewer = make(chan struct{})
	}
	return r.tree.fewer
}

// watches records that the client has watches: the stream is no longer idle.
func (r *streamState) watches() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tree.watching = true
	r.updateBusy()
}

package operations

import (
	"slices"
	"testing"

	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/tree"
	"holdfast/zk/frames"
	"holdfast/zk/jute"
)

// elements is how many elements a request may have.
const elements = 10_000

// answered is the outcome of a request: its elements by their codes, the bytes of the answer, the most bytes held at a
// time, and the number of reads.
type answered struct {
	codes             map[jute.Code]int
	size, most, asked int
}

// readMany asks a node for a number of elements of one kind, which all have the same content.
func readMany(t *testing.T, node *room, op jute.Op, read *tree.Answer) (got answered) {
	t.Helper()
	c, a := holding(t, node)
	ops := make([]jute.Request, elements)
	for i := range ops {
		ops[i] = jute.Request{Op: op, Body: jute.WatchRequest{Path: "/a"}}
	}
	r := c.request(jute.MultiRead, jute.MultiRequest{Ops: ops}, 0)
	if !takes(t, c, r) {
		t.Fatal("the request is not taken")
	}
	for {
		key := a.keys[len(a.keys)-1]
		reply, err := c.queue.Answered(&session.TreeAnswer{Key: key, Stamp: 1, Read: read})
		if err != nil {
			t.Fatal(err)
		}
		if got.most = max(got.most, a.held); got.most > 2*maxMultiRead {
			t.Fatalf("%d bytes are held", got.most)
		}
		if reply == nil {
			continue
		}
		if a.held != 0 {
			t.Errorf("%d bytes are held for a request that is answered", a.held)
		}
		frame := reply.Frame()
		got.codes, got.size, got.asked = outcomes(t, frame), len(frame), len(a.keys)
		return got
	}
}

// outcomes counts the elements of a reply by their codes.
func outcomes(t *testing.T, frame []byte) map[jute.Code]int {
	t.Helper()
	codes := map[jute.Code]int{}
	d := jute.NewDecoder(frame[frames.HeadBytes+16:])
	for {
		op, done, code := jute.Op(d.Int("op")), d.Bool("done"), jute.Code(d.Int("err"))
		switch {
		case done:
			if d.Err() != nil || d.Left() > 0 {
				t.Errorf("the reply has %d bytes behind its end, %v", d.Left(), d.Err())
			}
			return codes
		case op == jute.GetData:
			d.Buffer("data")
			for range 68 / 4 {
				d.Int("stat")
			}
		case op == jute.GetChildren:
			d.Strings("children")
		default:
			d.Int("code")
		}
		if codes[code]++; d.Err() != nil {
			t.Fatal(d.Err())
		}
	}
}

// The answer to a multiRead is bounded, whatever the requested entries are. From the first element on that would make
// it too large, all are refused unread. Elements read until then count for the node (G8 request bounds).
func TestMultiReadsAreBounded(t *testing.T) {
	data := &tree.Answer{Kind: tree.GetEntry, Exists: true, Data: make([]byte, 1<<20)}
	page := &tree.Answer{Kind: tree.ListChildren, More: true}
	const name, names = "a-name-of-some-length", 1000
	for range names {
		page.Children = append(page.Children, tree.Child{Name: name})
	}
	const listBytes = names * (lengthBytes + len(name))
	whole := *page
	whole.More = false
	inOneGo := &tree.Answer{Kind: tree.ListChildren, Paths: slices.Repeat([]string{name}, maxMultiRead/len(name))}
	const much, refused = 100 << 20, 13 // refused is the size of a refused element
	for what, tt := range map[string]struct {
		room int
		op   jute.Op
		read *tree.Answer
		// ok are the elements that are answered.
		ok int
	}{
		"data":                         {much, jute.GetData, data, 3},
		"small data":                   {much, jute.GetData, &tree.Answer{Kind: tree.GetEntry, Exists: true}, elements},
		"lists":                        {much, jute.GetChildren, &whole, maxMultiRead / listBytes},
		"a list that is too long":      {much, jute.GetChildren, page, 0},
		"one that is read in one go":   {much, jute.GetChildren, inOneGo, 0},
		"data, at a node without room": {1 << 20, jute.GetData, data, 1},
	} {
		t.Run(what, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				got := readMany(t, &room{most: tt.room}, tt.op, tt.read)
				if got.codes[jute.OK] != tt.ok || got.codes[jute.Throttled] != elements-tt.ok {
					t.Errorf("%v, want %d elements that are answered and the others refused", got.codes, tt.ok)
				}
				if bound := maxMultiRead + elements*refused + 100; got.size > bound || got.most > maxMultiRead {
					t.Errorf("the answer has %d bytes, at most %d; %d are held", got.size, bound, got.most)
				}
				if bound := max(tt.ok, maxMultiRead/listBytes) + 1; got.asked > bound {
					t.Errorf("%d reads, want at most %d", got.asked, bound)
				}
			})
		})
	}
}

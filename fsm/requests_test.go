package fsm

import (
	"testing"

	"holdfast/session"
)

// Damaged memory makes nothing hang or panic: a scrub finds it (D1), also after the request ids were forgotten.
func TestDamagedRequestIDsAreForgotten(t *testing.T) {
	const count = 3000
	some := func(parts *[indexParts]indexPart, change func(p *indexPart, i int)) {
		for k := range parts {
			for i, mark := range parts[k].marks {
				if mark >= marks {
					change(&parts[k], i)
					break
				}
			}
		}
	}
	for name, damage := range map[string]func(q *requests){
		"id": func(q *requests) {
			for _, p := range q.pages {
				p.ids[7][3] ^= 1
			}
		},
		"mark":     func(q *requests) { some(&q.index.parts, func(p *indexPart, i int) { p.marks[i] ^= 64 }) },
		"position": func(q *requests) { some(&q.index.parts, func(p *indexPart, i int) { p.positions[i] ^= 1 << 30 }) },
		"no part":  func(q *requests) { q.index.parts = [indexParts]indexPart{} },
	} {
		t.Run(name, func(t *testing.T) {
			q := newRequests()
			id := func(i int) session.RequestID { return session.RequestID{byte(i), byte(i >> 8), 1} }
			for i := range count {
				q.add(&request{id: id(i), session: session.ID(i), index: uint64(i)})
			}
			damage(&q)
			for i := range count {
				q.find(id(i))
			}
			for i := range count {
				q.dropOldest()
				q.add(&request{id: id(count + i), session: session.ID(i), index: uint64(count + i)})
			}
			for q.size() > 0 {
				q.dropOldest()
			}
		})
	}
}

package sim

import (
	"cmp"
	"context"
	"slices"

	"holdfast/client"
	"holdfast/test/sim/history"
	"holdfast/tree"
)

// breaks removes the entry of a holder or waiter of a prize, as "holdfast lock break" does. Two of three times it
// removes the first entry.
func (x *contender) breaks(ctx context.Context, s *client.Session, p prize) {
	ctx, cancel := context.WithTimeout(ctx, givesUp)
	defer cancel()
	line := p.lines[x.draw(len(p.lines))]
	page, err := s.Tree().ListPage(ctx, line, client.Listing{PageSize: tree.MaxPage, WithData: true})
	if err != nil || len(page.Children) == 0 {
		return
	}
	slices.SortFunc(page.Children, func(a, b tree.Child) int { return cmp.Compare(a.Stat.Created, b.Stat.Created) })
	whom := page.Children[0]
	if x.draw(3) == 0 {
		whom = page.Children[x.draw(len(page.Children))]
	}
	entry, sent := tree.Join(line, whom.Name), x.w.record.Now()
	done, err := s.Tree().Transact(ctx, tree.Transaction{
		If: []tree.Condition{
			{Path: entry, Property: tree.CreatedStamp, Is: tree.Equal, Value: uint64(whom.Stat.Created)},
		},
		Then: []tree.Op{tree.Delete{Path: entry, Version: tree.Any}},
	})
	if err == nil && done.Outcome.Else {
		return // given up meanwhile
	}
	e := history.Event{
		Kind: history.Broke, Who: x.name, ID: s.ID(), Sent: sent,
		Claim: &history.Claim{Name: string(whom.Data), Path: p.path, Token: whom.Stat.Created},
	}
	if err != nil {
		e.Text = err.Error()
	}
	x.w.record.Add(e)
}

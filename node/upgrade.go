package node

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"holdfast/session"
	"holdfast/transport/clientport"
)

// upgrade describes what the cluster could do, and what holds that back (W8).
func (n *Node) upgrade() clientport.UpgradeStatus {
	s := clientport.UpgradeStatus{Offered: n.options.tested.offers()}
	tracker := n.roles.terms.tracker.Load()
	if tracker == nil {
		return s
	}
	s.Offers = tracker.Offers()
	if n.view.level() >= s.Offered {
		return s
	}
	if s.HeldBackBy = lacking(s.Offers, s.Offered); len(s.HeldBackBy) == 0 &&
		n.cfg.Tree.Level(n.admission.foundedAt()) < s.Offered {
		s.HeldBackBy = []string{fmt.Sprintf("nobody has asked for it: holdfast cluster raise %d does, once no node is to go "+
			"back to an older release (tree is %s on node %d, which leads)", s.Offered, n.cfg.Tree.Raise, n.cfg.Node)}
	}
	return s
}

// lacking says for each member that does not offer a feature level why not.
func lacking(offers []session.Offer, level uint32) (why []string) {
	for _, o := range offers {
		switch {
		case !o.Connected:
			why = append(why, fmt.Sprintf("node %d is not connected to the leader", o.Node))
		case o.Level < level:
			why = append(why, fmt.Sprintf("node %d runs a release that offers feature level %d", o.Node, o.Level))
		}
	}
	return why
}

// RaiseFeatureLevel raises the cluster to a feature level, if this node leads and every member offers it (W8). It
// returns the level that the cluster has. The error is a [session.NotLeaderError], or a [session.FieldError] that names
// the members that do not offer the level.
func (n *Node) RaiseFeatureLevel(ctx context.Context, level uint32) (uint32, error) {
	offered := n.options.tested.offers()
	if level < 1 || level > offered {
		return 0, &session.FieldError{Field: "level", Limit: fmt.Sprintf("1 to %d, which this release has", offered)}
	}
	tracker := n.roles.terms.tracker.Load()
	if tracker == nil {
		return 0, n.roster.notLeader()
	}
	if now := n.view.level(); now >= level {
		return now, nil
	}
	if why := lacking(tracker.Offers(), level); len(why) > 0 {
		return 0, &session.FieldError{Field: "level", Limit: "must be offered by every member: " + strings.Join(why, ", ")}
	}
	if err := n.roles.terms.proposeLevel(ctx, tracker.Term(), level); err != nil {
		return 0, err
	}
	now := n.view.level()
	if now < level {
		return 0, errors.Join(session.ErrLagging, errors.New("the entry was of another term"))
	}
	n.options.Logger.Warn("an operator has raised the feature level", "level", now)
	return now, nil
}

package entry

import (
	"errors"
	"fmt"

	"holdfast/fsm/codec"
	logv1 "holdfast/proto/holdfast/log/v1"
	"holdfast/session"
)

// The functions of this file know every command. EncodeCommand refuses a command without a case here, and
// TestSamplesSetEveryField names a command of the schema that has no sample.

// check returns a [session.FieldError] when a field of c is out of range. Encoding and decoding both call check, so no
// node writes an entry that it cannot read.
func check(c session.Command) error {
	switch c := c.(type) {
	case session.OpenSession:
		return checkOpen(c)
	case session.MoveSession:
		return checkMove(c)
	case session.MoveSessions:
		return checkMoves(c)
	case session.CloseSessions:
		return checkClose(c)
	case session.UpgradeSession:
		return checkUpgrade(c)
	case session.ClaimIDs:
		return checkClaim(c)
	case session.SetCapacity:
		return codec.CheckCapacity(c.Capacity)
	case session.Configure:
		return checkConfigure(c)
	case session.FreezeExpiry:
		return checkFreeze(c)
	case session.ExtendSession:
		return checkExtend(c)
	case session.ForgetRequests, session.ThawExpiry:
		return nil
	default:
		if t, ok := TreeCommand(c); ok {
			return checkTreeCommand(t)
		}
		return fmt.Errorf("unknown command %T", c)
	}
}

func commandProto(c session.Command) *logv1.Command {
	switch c := c.(type) {
	case session.OpenSession:
		return &logv1.Command{Command: &logv1.Command_OpenSession{OpenSession: openProto(c)}}
	case session.MoveSession:
		return &logv1.Command{Command: &logv1.Command_MoveSession{MoveSession: moveProto(c)}}
	case session.MoveSessions:
		return &logv1.Command{Command: &logv1.Command_MoveSessions{MoveSessions: movesProto(c)}}
	case session.CloseSessions:
		return &logv1.Command{Command: &logv1.Command_CloseSessions{CloseSessions: closeProto(c)}}
	case session.ForgetRequests:
		return &logv1.Command{Command: &logv1.Command_ForgetRequests{ForgetRequests: &logv1.ForgetRequests{
			UpToIndex: c.UpToIndex,
		}}}
	case session.Configure:
		return &logv1.Command{Command: &logv1.Command_Configure{Configure: configureProto(c)}}
	case session.SetCapacity:
		return &logv1.Command{Command: &logv1.Command_SetCapacity{SetCapacity: &logv1.SetCapacity{
			MaxSessions: c.Capacity.MaxSessions, MaxStateBytes: c.Capacity.MaxBytes,
		}}}
	case session.UpgradeSession:
		return &logv1.Command{Command: &logv1.Command_UpgradeSession{UpgradeSession: upgradeProto(c)}}
	case session.ClaimIDs:
		return &logv1.Command{Command: &logv1.Command_ClaimIds{ClaimIds: &logv1.ClaimIDs{
			Node: uint32(c.Node), Ms: c.MS, Count: c.Count,
		}}}
	case session.FreezeExpiry:
		return &logv1.Command{Command: &logv1.Command_FreezeExpiry{FreezeExpiry: freezeProto(c)}}
	case session.ThawExpiry:
		return &logv1.Command{Command: &logv1.Command_ThawExpiry{ThawExpiry: &logv1.ThawExpiry{}}}
	case session.ExtendSession:
		return &logv1.Command{Command: &logv1.Command_ExtendSession{ExtendSession: extendProto(c)}}
	default:
		panic(fmt.Sprintf("entry: command %T passed its check and cannot be encoded", c))
	}
}

func commandFrom(of *logv1.Command) (session.Command, error) {
	if err := codec.NoUnknownFields(of); err != nil {
		return nil, err
	}
	var (
		c    session.Command
		err  error
		name string
	)
	switch m := of.GetCommand().(type) {
	case *logv1.Command_OpenSession:
		name = "open_session"
		c, err = openFrom(m.OpenSession)
	case *logv1.Command_MoveSession:
		name = "move_session"
		c, err = moveFrom(m.MoveSession)
	case *logv1.Command_MoveSessions:
		name = "move_sessions"
		c, err = movesFrom(m.MoveSessions)
	case *logv1.Command_CloseSessions:
		name = "close_sessions"
		c, err = closeFrom(m.CloseSessions)
	case *logv1.Command_ClaimIds:
		name = "claim_ids"
		c, err = claimFrom(m.ClaimIds)
	case *logv1.Command_UpgradeSession:
		name = "upgrade_session"
		c, err = upgradeFrom(m.UpgradeSession)
	case *logv1.Command_Write, *logv1.Command_Void, *logv1.Command_Acknowledge, *logv1.Command_Reap:
		return treeCommandOf(of)
	case *logv1.Command_FreezeExpiry, *logv1.Command_ThawExpiry, *logv1.Command_ExtendSession:
		name, c, err = operatorCommandFrom(of)
	default:
		name, c, err = clusterCommandFrom(of)
	}
	if name == "" {
		return nil, errors.New("empty")
	}
	if err == nil {
		err = check(c)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return c, nil
}

// clusterCommandFrom decodes a command about the whole cluster. The name is "" for other commands.
func clusterCommandFrom(of *logv1.Command) (name string, c session.Command, err error) {
	switch m := of.GetCommand().(type) {
	case *logv1.Command_ForgetRequests:
		name = "forget_requests"
		c, err = session.ForgetRequests{UpToIndex: m.ForgetRequests.GetUpToIndex()}, codec.NoUnknownFields(m.ForgetRequests)
	case *logv1.Command_Configure:
		name = "configure"
		c, err = configureFrom(m.Configure)
	case *logv1.Command_SetCapacity:
		name = "set_capacity"
		c, err = session.SetCapacity{Capacity: session.Capacity{
			MaxSessions: m.SetCapacity.GetMaxSessions(), MaxBytes: m.SetCapacity.GetMaxStateBytes(),
		}}, codec.NoUnknownFields(m.SetCapacity)
	}
	return name, c, err
}

// operatorCommandFrom decodes a command of an operator about expiry. The name is "" for other commands.
func operatorCommandFrom(of *logv1.Command) (name string, c session.Command, err error) {
	switch m := of.GetCommand().(type) {
	case *logv1.Command_FreezeExpiry:
		name = "freeze_expiry"
		c, err = freezeFrom(m.FreezeExpiry)
	case *logv1.Command_ThawExpiry:
		name = "thaw_expiry"
		c, err = session.ThawExpiry{}, codec.NoUnknownFields(m.ThawExpiry)
	case *logv1.Command_ExtendSession:
		name = "extend_session"
		c, err = extendFrom(m.ExtendSession)
	}
	return name, c, err
}

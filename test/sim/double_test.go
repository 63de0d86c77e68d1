package sim

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	holdfastv1 "holdfast/proto/holdfast/v1" //nolint:depguard // a client without the SDK: the SDK never sends twice on purpose
	"holdfast/session"
	"holdfast/test/sim/history"
	"holdfast/transport/wire" //nolint:depguard // reads from a refusal which process has the session
)

// double is a client without the SDK that sends every request twice.
type double struct {
	*rawClient
	instance uint64
	pairs    int
}

// Double implements faults.World.
func (w *world) Double(ctx context.Context) int {
	s, err := w.rawClient(w.guest("d"))
	if err != nil {
		w.failf("guest: %v", err)
		return 0
	}
	d := &double{rawClient: s, instance: s.rand.Uint64() | 1}
	for ctx.Err() == nil {
		d.session(context.WithoutCancel(ctx))
		sleep(ctx, 300*time.Millisecond)
	}
	d.disconnect()
	w.Network.Kill(d.name)
	return d.pairs
}

// twice makes a call through two nodes, or twice through one, at once or in turn. It returns the answers with their
// nodes.
func twice[T any](
	ctx context.Context, d *double, do func(context.Context, holdfastv1.SessionServiceClient) (T, error),
) (got [2]T, through [2]int, errs [2]error) {
	at := d.rand.IntN(len(d.nodes))
	through = [2]int{at, (at + d.rand.IntN(len(d.nodes))) % len(d.nodes)}
	gap := time.Duration(d.rand.IntN(3)) * time.Millisecond
	var both sync.WaitGroup
	for i, node := range through {
		both.Go(func() {
			bound, cancel := context.WithTimeout(ctx, callTimeout)
			defer cancel()
			sleep(bound, time.Duration(i)*gap)
			got[i], errs[i] = do(bound, d.nodes[node])
		})
	}
	both.Wait()
	if errs[0] == nil && errs[1] == nil {
		d.pairs++
	}
	return got, through, errs
}

// session opens a session twice, resumes it twice, sends a late resume, and closes it twice.
func (d *double) session(ctx context.Context) {
	var id session.RequestID
	for i := range len(id) / 8 {
		binary.LittleEndian.PutUint64(id[8*i:], d.rand.Uint64())
	}
	request := &holdfastv1.OpenSessionRequest{Timeout: durationpb.New(4 * time.Second), RequestId: id[:]}
	sent := d.w.record.Now()
	opened, through, errs := twice(ctx,
		d, func(ctx context.Context, c holdfastv1.SessionServiceClient) (*holdfastv1.OpenSessionResponse, error) {
			return c.OpenSession(ctx, request)
		})
	var token *holdfastv1.Token
	for i, err := range errs {
		if err != nil {
			d.w.record.Add(
				history.Event{
					Kind: history.Refused, Who: d.name, Op: history.Open, Node: number(through[i]),
					Sent: sent, Unknown: true, Text: err.Error(),
				},
			)
			continue
		}
		if token != nil && !same(token, opened[i].GetToken()) {
			d.w.failAbout(session.ID(token.GetSessionId()), "O2: its request id has opened %v too",
				session.ID(opened[i].GetToken().GetSessionId()))
		}
		kind := history.Opened
		if token != nil {
			kind = history.Promised // the same session, opened once (O2 idempotent opens)
		}
		token = opened[i].GetToken()
		if kind == history.Opened || opened[i].GetSafeFor() != nil {
			d.answered(kind, token, sent, opened[i].GetSafeFor(), through[i])
		}
	}
	if token == nil {
		return
	}
	first := token
	for attempt := range uint64(2) {
		if next := d.resume(ctx, token, attempt+1); next != nil {
			token = next
		}
	}
	if next := d.resume(ctx, token, 7); next != nil {
		token = next
		d.late(ctx, token, 6)
		d.stale(ctx, first, token)
	}
	d.close(ctx, token)
	d.w.record.Add(
		history.Event{
			Kind: history.Silent, Who: d.name, ID: session.ID(token.GetSessionId()), Attachment: token.GetAttachment(),
		},
	)
}

func number(at int) session.Node { return session.Node(at + 1) }

func same(a, b *holdfastv1.Token) bool {
	return a.GetSessionId() == b.GetSessionId() && string(a.GetCredential()) == string(b.GetCredential())
}

// answered records that an open or a resume was answered.
func (d *double) answered(k history.Kind, t *holdfastv1.Token, sent time.Duration, safe *durationpb.Duration,
	through int,
) {
	e := history.Event{
		Kind: k, Who: d.name, ID: session.ID(t.GetSessionId()), Attachment: t.GetAttachment(),
		Sent: sent, Node: number(through),
	}
	if safe != nil {
		e.Until = sent + safe.AsDuration()
	}
	d.w.record.Add(e)
}

// resume makes one attempt twice. It returns the newest token in the answers.
func (d *double) resume(ctx context.Context, t *holdfastv1.Token, attempt uint64) *holdfastv1.Token {
	sent := d.w.record.Now()
	request := &holdfastv1.ResumeSessionRequest{Token: t, Instance: d.instance, Attempt: attempt}
	got, through, errs := twice(ctx, d,
		func(ctx context.Context, c holdfastv1.SessionServiceClient) (*holdfastv1.ResumeSessionResponse, error) {
			return c.ResumeSession(ctx, request)
		})
	var newest *holdfastv1.Token
	for i, err := range errs {
		if err != nil {
			d.refused(history.Resume, t, sent, through[i], err)
			continue
		}
		token := got[i].GetToken()
		if !same(t, token) {
			d.w.failAbout(session.ID(t.GetSessionId()), "its resume was answered with %v",
				session.ID(token.GetSessionId()))
		}
		d.answered(history.Resumed, token, sent, got[i].GetSafeFor(), through[i])
		if through[0] == through[1] && errs[0] == nil && errs[1] == nil &&
			got[0].GetToken().GetAttachment() != got[1].GetToken().GetAttachment() {
			d.w.failAbout(session.ID(t.GetSessionId()),
				"M1: one attempt for one owner was answered with attachment %d and with %d",
				got[0].GetToken().GetAttachment(), got[1].GetToken().GetAttachment())
		}
		if newest == nil || token.GetAttachment() > newest.GetAttachment() {
			newest = token
		}
	}
	return newest
}

// late sends an attempt below the newest answered attempt: it must never move the session (M1 a resume is a move).
func (d *double) late(ctx context.Context, t *holdfastv1.Token, attempt uint64) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	sent, at := d.w.record.Now(), d.rand.IntN(len(d.nodes))
	_, err := d.nodes[at].ResumeSession(ctx,
		&holdfastv1.ResumeSessionRequest{Token: t, Instance: d.instance, Attempt: attempt})
	if err == nil {
		d.w.failAbout(session.ID(t.GetSessionId()), "M1: attempt %d was answered after a later one was", attempt)
		return
	}
	d.refused(history.Resume, t, sent, at, err)
}

// stale sends the resume of a former process, which may have been in flight since the session had its first attachment.
// It must never take the session from the present process, which has newest (M1).
func (d *double) stale(ctx context.Context, first, newest *holdfastv1.Token) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	sent, at := d.w.record.Now(), d.rand.IntN(len(d.nodes))
	_, err := d.nodes[at].ResumeSession(ctx,
		&holdfastv1.ResumeSessionRequest{Token: first, Instance: d.instance + 2, Attempt: 1})
	if err == nil {
		d.w.failAbout(session.ID(first.GetSessionId()),
			"M1: a process that knew attachment %d took it over from one that had %d",
			first.GetAttachment(), newest.GetAttachment())
		return
	}
	reported, moved := errors.AsType[*session.MovedError](wire.Domain(err))
	if moved && (reported.Attachment < newest.GetAttachment() || reported.Instance != d.instance) {
		d.w.failAbout(session.ID(first.GetSessionId()),
			"M1: notified that process %d has it with attachment %d, which process %d has with %d or above",
			reported.Instance, reported.Attachment, d.instance, newest.GetAttachment())
	}
	d.refused(history.Resume, first, sent, at, err)
}

// close closes a session twice.
func (d *double) close(ctx context.Context, t *holdfastv1.Token) {
	sent := d.w.record.Now()
	d.w.record.Add(
		history.Event{
			Kind: history.CloseSent, Who: d.name, ID: session.ID(t.GetSessionId()), Attachment: t.GetAttachment(),
		},
	)
	_, through, errs := twice(ctx, d,
		func(ctx context.Context, c holdfastv1.SessionServiceClient) (*holdfastv1.CloseSessionResponse, error) {
			return c.CloseSession(ctx, &holdfastv1.CloseSessionRequest{Token: t})
		})
	for i, err := range errs {
		if err != nil {
			d.refused(history.Close, t, sent, through[i], err)
			continue
		}
		d.w.record.Add(history.Event{
			Kind: history.Closed, Who: d.name, ID: session.ID(t.GetSessionId()), Attachment: t.GetAttachment(),
			Sent: sent, Node: number(through[i]),
		})
	}
}

// refused records that a request was refused or not answered.
func (d *double) refused(op history.Op, t *holdfastv1.Token, sent time.Duration, through int, err error) {
	e := history.Event{
		Kind: history.Refused, Who: d.name, Op: op, ID: session.ID(t.GetSessionId()), Attachment: t.GetAttachment(),
		Sent: sent,
		Node: number(through), Unknown: true, Text: fmt.Sprint(err),
	}
	d.w.record.Add(e)
}

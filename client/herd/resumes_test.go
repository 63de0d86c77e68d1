package herd

import (
	"time"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/ratelimit"
	"holdfast/transport/wire"
)

// resumeMany admits and resumes each session of a message by itself, and answers when all have an outcome.
func (hc *herdConn) resumeMany(m *holdfastv1.ResumeSessions) {
	h, now, n := hc.client.h, time.Now(), len(m.GetIds())
	hc.node.asked += n
	hc.node.messages++
	answer := &holdfastv1.ResumedSessions{
		Seq: m.GetSeq(), Attachments: make([]uint64, n), SafeForMs: make([]uint64, n),
	}
	left := n
	judge := func(i int, g session.Grant, err error) {
		if err != nil {
			answer.Failures = append(answer.Failures, &holdfastv1.TouchFailure{Id: m.GetIds()[i], Error: wire.Detail(err)})
		} else {
			answer.Attachments[i] = g.Token.Attachment
			answer.SafeForMs[i] = uint64(max(g.SafeFor.Milliseconds(), 0))
		}
		if left--; left == 0 {
			hc.answer(&holdfastv1.ServerMessage{
				Message: &holdfastv1.ServerMessage_ResumedSessions{ResumedSessions: answer},
			})
		}
	}
	for i, raw := range m.GetIds() {
		token := session.Token{
			ID: session.ID(raw), Credential: session.Credential(m.GetCredentials()[16*i : 16*i+16]),
			Attachment: m.GetAttachments()[i],
		}
		if err := hc.places.Admit(now, ratelimit.Arrival{Kind: ratelimit.Resumes, Session: token.ID}); err != nil {
			judge(i, session.Grant{}, err)
			continue
		}
		hc.node.admitted = append(hc.node.admitted, now.Sub(h.start))
		go func() {
			g, err := hc.serves.Resume(h.ctx,
				session.ResumeRequest{Token: token, Instance: m.GetInstance(), Attempt: m.GetAttempts()[i]})
			h.tell(func() { judge(i, g, err) })
		}()
	}
}

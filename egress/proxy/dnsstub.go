package proxy

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/sage-sandbox/sage/egress"
)

const (
	// answerTTL, in seconds, can be long: an address keeps its name.
	answerTTL = 300
	// udpSize is what we say that we take (RFC 6891); no answer is near it.
	udpSize = 1232
	// maxQuestion bounds a message over TCP, padding included.
	maxQuestion = 4096
	// errorBlocked and optionError are of RFC 8914: why a name was refused.
	errorBlocked = 15
	optionError  = 15
)

// stub is the resolver of the transparent path. It asks nobody: an allowed name
// gets an address that stands for it here, and what it leads to is found out
// when something connects there. So a question carries nothing out.
type stub struct {
	policy egress.Policy
	table  synthetic
	record recorder
	quota  quota
}

func newStub(policy egress.Policy, to recorder) *stub {
	return &stub{policy: policy, record: to}
}

// Name is the host for which a synthetic address was given out.
func (s *stub) Name(addr netip.Addr) (egress.Host, bool) { return s.table.name(addr) }

// reply is what is said to one question.
type reply struct {
	header   dnsmessage.Header
	question dnsmessage.Question
	answer   dnsmessage.ResourceBody // nil: none
	edns     bool
	because  string // for people, with a refusal
}

// answer is the message to send for one that came, nil for what is no question
// and must not be answered, lest two servers talk to each other.
func (s *stub) answer(message []byte) []byte {
	var p dnsmessage.Parser
	header, err := p.Start(message)
	if err != nil || header.Response {
		return nil
	}
	r := reply{header: dnsmessage.Header{
		ID: header.ID, Response: true, OpCode: header.OpCode, RecursionDesired: header.RecursionDesired, RecursionAvailable: true,
	}}
	r.header.RCode = s.examine(&p, header, &r)
	out, err := r.pack()
	if err != nil {
		return nil
	}
	return out
}

// examine fills in the reply and gives its code.
func (s *stub) examine(p *dnsmessage.Parser, header dnsmessage.Header, r *reply) dnsmessage.RCode {
	if header.OpCode != 0 {
		return dnsmessage.RCodeNotImplemented
	}
	question, err := p.Question()
	if err != nil {
		return dnsmessage.RCodeFormatError
	}
	if _, err := p.Question(); !errors.Is(err, dnsmessage.ErrSectionDone) {
		return dnsmessage.RCodeFormatError
	}
	r.question = question
	version, err := r.readEDNS(p)
	switch {
	case err != nil:
		return dnsmessage.RCodeFormatError
	case version != 0:
		return badVersion
	case r.question.Class != dnsmessage.ClassINET:
		return s.refuse(r, egress.Host{}, egress.Decision{Reason: "no other class than IN is answered"})
	case r.question.Type == dnsmessage.TypePTR:
		return s.reverse(r)
	}
	return s.forward(r)
}

// badVersion is BADVERS of RFC 6891, whose upper bits stand in the OPT record.
const badVersion = dnsmessage.RCode(16)

// readEDNS looks for the OPT record among the additional ones. Whatever else a
// question brings has no meaning here and is not looked at.
func (r *reply) readEDNS(p *dnsmessage.Parser) (version int, err error) {
	if err := p.SkipAllAnswers(); err != nil {
		return 0, err
	}
	if err := p.SkipAllAuthorities(); err != nil {
		return 0, err
	}
	for {
		h, err := p.AdditionalHeader()
		if errors.Is(err, dnsmessage.ErrSectionDone) {
			return version, nil
		}
		if err != nil {
			return 0, err
		}
		if h.Type == dnsmessage.TypeOPT {
			r.edns, version = true, int(h.TTL>>16&0xff)
		}
		if err := p.SkipAdditional(); err != nil {
			return 0, err
		}
	}
}

// forward is for a name. Of an allowed one there is an address of version 4,
// and nothing else: an answer without records, at which clients go on with that.
func (s *stub) forward(r *reply) dnsmessage.RCode {
	host, err := egress.ParseHost(r.question.Name.String())
	if err != nil || host.IsIP() {
		return s.refuse(r, egress.Host{}, egress.Decision{Reason: "the question names no host"})
	}
	decision := egress.DecideName(s.policy, host)
	if !decision.Allow {
		return s.refuse(r, host, decision)
	}
	if r.question.Type == dnsmessage.TypeA {
		addr, ok := s.table.address(host)
		if !ok {
			return s.refuse(r, host, egress.Decision{Reason: fmt.Sprintf("more than %d names were looked up", maxNames)})
		}
		r.answer = &dnsmessage.AResource{A: addr.As4()}
	}
	s.record.add(egress.CounterDNSAllowed, 1)
	return dnsmessage.RCodeSuccess
}

// reverse is for an address that stands for a name.
func (s *stub) reverse(r *reply) dnsmessage.RCode {
	host, ok := s.table.name(fromReverse(r.question.Name.String()))
	if !ok {
		return s.refuse(r, egress.Host{}, egress.Decision{Reason: "the address stands for no name"})
	}
	name, err := dnsmessage.NewName(host.String() + ".")
	if err != nil {
		return dnsmessage.RCodeServerFailure
	}
	r.answer = &dnsmessage.PTRResource{PTR: name}
	s.record.add(egress.CounterDNSAllowed, 1)
	return dnsmessage.RCodeSuccess
}

// fromReverse reads 2.0.18.198.in-addr.arpa., and gives the zero address for
// any other name.
func fromReverse(name string) netip.Addr {
	numbers, ok := strings.CutSuffix(strings.ToLower(name), ".in-addr.arpa.")
	if !ok {
		return netip.Addr{}
	}
	parts := strings.Split(numbers, ".")
	if len(parts) != 4 {
		return netip.Addr{}
	}
	parts[0], parts[1], parts[2], parts[3] = parts[3], parts[2], parts[1], parts[0]
	addr, _ := netip.ParseAddr(strings.Join(parts, "."))
	return addr
}

// refuse says no, and records it where that is not more than a host's disk
// should have to bear.
func (s *stub) refuse(r *reply, host egress.Host, d egress.Decision) dnsmessage.RCode {
	s.record.add(egress.CounterDNSRefused, 1)
	r.because = "sage: " + d.Reason
	if d.Code != "" {
		r.because = "sage: " + string(d.Code)
	}
	key := host.String() + d.Reason
	if left, ok := s.quota.take(key, time.Now()); ok {
		reason := d.Reason
		if left > 0 {
			reason = fmt.Sprintf("%s (%d more refusals before this one were not written)", reason, left)
		}
		s.record.write(egress.AuditLine{
			Time: time.Now(), Event: egress.EventDNS, Action: egress.ActionDeny, Kind: egress.KindDNS.String(),
			Method: typeName(r.question.Type), Host: host.String(), Rule: d.Rule, Code: d.Code, Reason: reason,
		})
	}
	return dnsmessage.RCodeRefused
}

// typeName is A, AAAA and so on.
func typeName(t dnsmessage.Type) string { return strings.TrimPrefix(t.String(), "Type") }

// pack makes the message. A reply to what could not be read has no question.
func (r *reply) pack() ([]byte, error) {
	b := dnsmessage.NewBuilder(make([]byte, 0, 512), r.header)
	b.EnableCompression()
	if r.question.Type != 0 {
		if err := b.StartQuestions(); err != nil {
			return nil, err
		}
		if err := b.Question(r.question); err != nil {
			return nil, err
		}
	}
	if err := r.packAnswer(&b); err != nil {
		return nil, err
	}
	if r.edns {
		if err := r.packEDNS(&b); err != nil {
			return nil, err
		}
	}
	return b.Finish()
}

func (r *reply) packAnswer(b *dnsmessage.Builder) error {
	if r.answer == nil {
		return nil
	}
	if err := b.StartAnswers(); err != nil {
		return err
	}
	h := dnsmessage.ResourceHeader{Name: r.question.Name, Class: dnsmessage.ClassINET, TTL: answerTTL}
	if a, ok := r.answer.(*dnsmessage.AResource); ok {
		return b.AResource(h, *a)
	}
	p, _ := r.answer.(*dnsmessage.PTRResource)
	return b.PTRResource(h, *p)
}

func (r *reply) packEDNS(b *dnsmessage.Builder) error {
	if err := b.StartAdditionals(); err != nil {
		return err
	}
	var h dnsmessage.ResourceHeader
	if err := h.SetEDNS0(udpSize, r.header.RCode, false); err != nil {
		return err
	}
	var opt dnsmessage.OPTResource
	if r.because != "" {
		opt.Options = []dnsmessage.Option{{Code: optionError, Data: append([]byte{0, errorBlocked}, r.because...)}}
	}
	return b.OPTResource(h, opt)
}

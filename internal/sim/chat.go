package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"time"
)

func (s *Server) routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", s.chat)
	mux.HandleFunc("POST /v1/completions", s.shaped(func() shape { return &textShape{} }))
	mux.HandleFunc("POST /v1/embeddings", s.shaped(func() shape { return &vectorShape{} }))
	mux.HandleFunc("POST /v1/responses", s.shaped(func() shape { return &responseShape{} }))
	mux.HandleFunc("POST /v1/messages", s.messages)
	mux.HandleFunc("GET /v1/models", s.listModels)
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	s.controlRoutes(mux)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeError(w, http.StatusNotFound, fmt.Sprintf("Invalid URL (%s %s)", r.Method, r.URL.Path), "invalid_request_error", "")
	})
	return mux
}

// plan is what will happen to a call.
type plan struct {
	fault   *Fault
	answer  *Fault // of kind says
	latency time.Duration
	tokens  int

	firstToken, interval time.Duration // of a stream

	standing *standing // of the limit, where its headers tell; else nil
	leave    func()    // ends the call
}

func (s *Server) chat(w http.ResponseWriter, r *http.Request) { s.serve(w, r, parseChat) }

// parseChat reads a request, and what a provider would refuse it for.
func parseChat(body []byte) (req chatRequest, problem string) {
	if err := json.Unmarshal(body, &req); err != nil {
		return req, "the body is not the JSON of a request"
	}
	return req, req.problem()
}

// serve answers a call of either API; a writer of the other one's translates.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, parse func(body []byte) (chatRequest, string)) {
	body, err := readBody(w, r) // to its end: only then is a client's going away noticed
	if err != nil {
		writeError(w, http.StatusBadRequest, "the body could not be read", "invalid_request_error", "")
		return
	}
	req, problem := parse(body)
	begun := s.now()
	call, epoch := s.log.begin(Call{
		At: begun, Model: req.Model, IdempotencyKey: r.Header.Get("Idempotency-Key"), Digest: digest(body), Stream: req.Stream,
	})
	defer func() { // also when the connection is broken on purpose by a panic
		call.MS = s.now().Sub(begun).Milliseconds()
		s.log.end(call, epoch)
		s.slog.LogAttrs(context.WithoutCancel(r.Context()), slog.LevelDebug, "call", slog.Int64("n", call.N),
			slog.String("model", call.Model), slog.Int("status", call.Status), slog.String("fault", string(call.Fault)), slog.Bool("cut", call.Cut))
	}()
	w.Header().Set("X-Request-Id", requestID(call.N))
	if problem != "" {
		call.Status = http.StatusBadRequest
		writeError(w, call.Status, problem, "invalid_request_error", "")
		return
	}
	s.respond(w, r, req, &call)
}

// respond does to a call what its plan says.
func (s *Server) respond(w http.ResponseWriter, r *http.Request, req chatRequest, call *Call) {
	p := s.plan(req)
	defer p.leave()
	p.standing.set(w.Header(), s.now())
	wait := p.latency
	if req.Stream && p.firstToken > 0 {
		wait = 0
	}
	if f := p.fault; f != nil {
		call.Fault = f.Kind
		if !faults[f.Kind].late {
			wait = 0
		}
		wait += f.Delay
	}
	if err := s.pause(r.Context(), wait); err != nil {
		s.cut(call)
		return
	}
	switch {
	case p.fault == nil, p.fault.Kind == Slow, p.fault.Kind == Refusal, p.fault.Kind == Says:
		p.answer, p.fault = p.fault, nil
		s.answer(w, r, req, p, call)
	case p.fault.Kind.inAnswer():
		s.answer(w, r, req, p, call)
	case p.fault.Kind == Hang:
		_ = s.await(r.Context(), nil) // somebody goes away, always
		s.cut(call)
	case p.fault.Kind == Reset:
		breakConnection(w)
	default:
		call.Status = faults[p.fault.Kind].status
		p.fault.write(w, s.now())
	}
}

// answer sends an answer, streamed or plain; what is left of the plan's fault
// meets it on the way.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, req chatRequest, p plan, call *Call) {
	a := req.echo(requestID(call.N), s.now().Unix(), p.tokens)
	switch {
	case call.Fault == Refusal:
		a.refuse()
	case call.Fault == Says:
		a.say(p.answer.Text, p.answer.Finish)
	}
	switch {
	case req.Stream:
		s.stream(w, r, a.events(req.wantsUsage()), p, call)
	case p.fault != nil:
		s.spoil(w, r, a, p.fault, call)
	default:
		call.Status = http.StatusOK
		writeJSON(w, call.Status, a)
	}
}

// spoil is what a plain answer meets where a stream would break off.
func (s *Server) spoil(w http.ResponseWriter, r *http.Request, a answer, f *Fault, call *Call) {
	call.Status = http.StatusOK
	w.Header().Set("Content-Type", "application/json")
	body, _ := json.Marshal(a) // plain values
	half := body[:len(body)/2]
	switch f.Kind {
	case Stall:
		s.stall(w, r, f.KeepAlive, "\n")
		s.cut(call)
	case CutOff:
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_ = send(w, string(half)) // a client that went away is on the log anyway
		breakConnection(w)
	case Unfinished:
		_, _ = w.Write(half)
	case StreamError:
		_, _ = w.Write([]byte(faults[f.Kind].body))
	}
}

// cut ends a call that nobody waits for any more. The panic is net/http's own
// way to close the connection without a response.
func (s *Server) cut(call *Call) {
	call.Cut = true
	panic(http.ErrAbortHandler)
}

// plan decides about the next call of a model. Whoever asks for it must leave.
func (s *Server) plan(req chatRequest) plan {
	model := req.Model
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.models[model]
	if st == nil {
		st = &state{}
		s.models[model] = st
	}
	st.calls++
	b := s.script.of(model)
	chance := s.script.chance(model, st.calls)
	p := plan{latency: b.Latency.draw(chance), tokens: b.Tokens.draw(chance), leave: func() {}}
	p.firstToken, p.interval = b.Stream.FirstToken, b.Stream.interval()
	elapsed := s.now().Sub(s.start)
	p.fault = s.faultOf(b, st, req, elapsed, chance)
	if p.fault == nil {
		p.fault, p.standing = st.limited(b.Limit, elapsed)
		if p.fault != nil {
			return p
		}
	}
	st.inFlight++
	p.leave = func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		st.inFlight--
	}
	return p
}

// faultOf is the fault that meets a call; nil: none. The caller holds the lock.
func (s *Server) faultOf(b Behaviour, st *state, req chatRequest, elapsed time.Duration, chance *rand.Rand) *Fault {
	for _, a := range s.added {
		if a.applies(req.Model, elapsed, st.calls, chance) && a.Kind.meets(req) {
			return &a.Fault
		}
	}
	for _, f := range b.Faults {
		if f.applies(elapsed, st.calls, chance) && f.Kind.meets(req) {
			return &f
		}
	}
	return nil
}

func (s *Server) listModels(w http.ResponseWriter, _ *http.Request) {
	type model struct {
		ID      string `json:"id"`
		Object  string `json:"object"`
		OwnedBy string `json:"owned_by"`
	}
	all := []model{}
	for _, name := range slices.Sorted(maps.Keys(s.script.Models)) {
		all = append(all, model{ID: name, Object: "model", OwnedBy: "sim"})
	}
	writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": all})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // a client that went away is no concern of ours
}

func writeError(w http.ResponseWriter, status int, message, errType, code string) {
	detail := map[string]any{"message": message, "type": errType, "param": nil, "code": nil}
	if code != "" {
		detail["code"] = code
	}
	writeJSON(w, status, map[string]any{"error": detail})
}

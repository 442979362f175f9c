package sim

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// addedFault is a fault that came while the server ran; its times and call
// numbers count from then.
type addedFault struct {
	Fault
	model string // "" for all
	since time.Duration
	calls map[string]int64 // each model's calls at that moment
}

func (a addedFault) applies(model string, elapsed time.Duration, n int64, chance *rand.Rand) bool {
	return (a.model == "" || a.model == model) &&
		a.Fault.applies(elapsed-a.since, n-a.calls[model], chance)
}

// AddFaults adds faults to a running server, for one model or, with "", for
// all. They come before those of the script and those that were added before,
// and their times and call numbers count from now.
func (s *Server) AddFaults(model string, list ...Fault) error {
	var errs []error
	for i, f := range list {
		errs = append(errs, f.validate(fmt.Sprintf("faults[%d]", i)))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("add faults: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := map[string]int64{}
	for name, st := range s.models {
		calls[name] = st.calls
	}
	var added []addedFault
	for _, f := range list {
		added = append(added, addedFault{Fault: f, model: model, since: s.now().Sub(s.start), calls: calls})
	}
	s.added = append(added, s.added...)
	return nil
}

// ClearFaults takes added faults away; the script's stay.
func (s *Server) ClearFaults() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.added = nil
}

// faultsRequest is the body of POST /sim/faults, JSON or YAML.
type faultsRequest struct {
	Model  string  `yaml:"model"` // "" for all
	Faults []Fault `yaml:"faults"`
}

func (s *Server) controlRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET /sim/calls", s.serveCalls)
	mux.HandleFunc("GET /sim/counts", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, s.Counts())
	})
	mux.HandleFunc("POST /sim/reset", func(w http.ResponseWriter, _ *http.Request) {
		s.Reset()
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("POST /sim/faults", s.serveAddFaults)
	mux.HandleFunc("DELETE /sim/faults", func(w http.ResponseWriter, _ *http.Request) {
		s.ClearFaults()
		w.WriteHeader(http.StatusNoContent)
	})
}

// serveCalls lists the log; ?after=N leaves out calls up to number N, ?model=M
// those of other models.
func (s *Server) serveCalls(w http.ResponseWriter, r *http.Request) {
	var after int64
	if text := r.FormValue("after"); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			writeError(w, http.StatusBadRequest, "after: want a number", "invalid_request_error", "")
			return
		}
		after = n
	}
	model, list := r.FormValue("model"), []Call{}
	for _, c := range s.Calls() {
		if c.N > after && (model == "" || model == c.Model) {
			list = append(list, c)
		}
	}
	writeJSON(w, http.StatusOK, list)
}

func (s *Server) serveAddFaults(w http.ResponseWriter, r *http.Request) {
	body, err := readBody(w, r)
	if err == nil {
		var req faultsRequest
		if err = decodeStrict(bytes.NewReader(body), &req); err == nil {
			err = s.AddFaults(req.Model, req.Faults...)
		}
	}
	if err != nil {
		writeError(w, http.StatusBadRequest, err.Error(), "invalid_request_error", "")
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

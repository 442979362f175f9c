package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// server is an HTTP server of this process.
type server struct {
	name     string
	addr     string
	base     string      // the path under which it serves; "": /
	tls      *tls.Config // nil: plain HTTP
	handler  http.Handler
	close    func() error // may be nil
	ending   func()       // ends what would hold a shutdown up; may be nil
	listener net.Listener
	http     *http.Server
}

func (s *server) start(wg *sync.WaitGroup, log *slog.Logger) error {
	l, err := net.Listen("tcp", s.addr)
	if err != nil {
		return fmt.Errorf("listen for the %s on %s: %w", s.name, s.addr, err)
	}
	s.listener = l
	s.http = &http.Server{
		Handler: s.handler, TLSConfig: s.tls, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second,
		WriteTimeout: time.Minute, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	if s.ending != nil {
		s.http.RegisterOnShutdown(s.ending)
	}
	wg.Go(func() {
		serve := s.http.Serve
		if s.tls != nil {
			serve = func(l net.Listener) error { return s.http.ServeTLS(l, "", "") }
		}
		if err := serve(l); err != nil && !errors.Is(err, http.ErrServerClosed) {
			log.Error("server ended", "server", s.name, "error", err)
		}
	})
	return nil
}

// url is where it listens.
func (s *server) url() string {
	scheme := "http"
	if s.tls != nil {
		scheme = "https"
	}
	return scheme + "://" + s.listener.Addr().String() + s.base + "/"
}

func (s *server) stop() error {
	var errs []error
	if s.http != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		if s.http.Shutdown(ctx) != nil {
			errs = append(errs, s.http.Close()) // a page that is held open must not hold the process
		}
	}
	if s.close != nil {
		errs = append(errs, s.close())
	}
	return errors.Join(errs...)
}

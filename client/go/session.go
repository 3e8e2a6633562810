package kiln

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	kilnv1 "kiln/v1"
)

// session owns what a client makes on the server. A goroutine renews its lease; a client that is killed renews no more,
// and the server then frees what it had. A session that the server does not know any more, since it was started anew,
// is replaced by another: what the first owned is gone.
type session struct {
	client *Client
	wanted time.Duration
	due    chan struct{} // renewal is, before its time
	ended  chan struct{}
	done   chan struct{}

	closing sync.Once
	mutex   sync.Mutex
	current []byte
	granted time.Duration
}

const (
	// Between two renewals at least, however often calls find the session gone, and where no other could be opened.
	rest       = 100 * time.Millisecond
	restFailed = time.Second
)

// token is nil where there is no session.
func (s *session) token() []byte {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.current
}

func (s *session) lease() time.Duration {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.granted
}

func (s *session) open(ctx context.Context, lease time.Duration) error {
	s.wanted = lease
	if err := s.begin(ctx); err != nil {
		if failed := fromError(err); failed.Status == codes.Unimplemented {
			return nil
		}
		return err
	}
	s.due, s.ended, s.done = make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	go s.keep()
	return nil
}

func (s *session) begin(ctx context.Context) error {
	seconds := uint32(max(1, (s.wanted+time.Second-1)/time.Second))
	opened, err := s.client.sessions.Open(ctx, &kilnv1.OpenSessionRequest{LeaseSeconds: seconds})
	if err != nil {
		return err
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.current, s.granted = opened.Token, time.Duration(opened.LeaseSeconds)*time.Second
	return nil
}

// hasten makes keep look now whether the server still knows the session.
func (s *session) hasten() {
	select {
	case s.due <- struct{}{}:
	default:
	}
}

// wait is false when the session is to end.
func (s *session) wait(pause time.Duration, sooner <-chan struct{}) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-sooner:
	case <-s.ended:
		return false
	}
	return true
}

func (s *session) keep() {
	defer close(s.done)
	for {
		third := max(s.lease()/3, rest) // one call that is lost leaves time for a second
		if !s.wait(third, s.due) {
			return
		}
		pause := rest
		ctx, cancel := context.WithTimeout(context.Background(), third)
		_, err := s.client.sessions.Renew(ctx, &kilnv1.RenewSessionRequest{Token: s.token()})
		if failed := fromError(err); failed != nil && failed.Status == codes.NotFound {
			if s.begin(ctx) != nil {
				pause = restFailed // a server that does not answer may come back: the next renewal tries again
			}
		}
		cancel()
		if !s.wait(pause, nil) {
			return
		}
	}
}

// close frees what the session owns. If that fails, the lease's end does it.
func (s *session) close() {
	if s.ended == nil {
		return
	}
	first := false
	s.closing.Do(func() { close(s.ended); first = true })
	<-s.done
	if !first {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), connectTimeout)
	defer cancel()
	_, _ = s.client.sessions.Close(ctx, &kilnv1.CloseSessionRequest{Token: s.token()})
}

package standin

import (
	"os"

	"ollamoon/internal/worker"
)

// openRequests opens the request log of the settings. Without one, or without the
// file, nothing is logged: requests are served all the same.
func (s *standIn) openRequests() *worker.RequestLog {
	if s.settings.RequestLog == "" {
		return nil
	}
	file, err := os.OpenFile(s.settings.RequestLog, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.log.Warn("requests are not logged", "error", err)
		return nil
	}
	s.requests = file
	return worker.NewRequestLog(file)
}

// closeRequests ends the request log.
func (s *standIn) closeRequests() {
	if s.requests == nil {
		return
	}
	if err := s.requests.Close(); err != nil {
		s.log.Warn("the request log may have lost its end", "error", err)
	}
}

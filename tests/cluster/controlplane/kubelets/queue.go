package kubelets

import "sync"

// queue runs functions one after the other, in the order they came. Adding never blocks.
type queue struct {
	mutex   sync.Mutex
	waiting []func()
	running bool
}

func (q *queue) add(work func()) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	q.waiting = append(q.waiting, work)
	if !q.running {
		q.running = true
		go q.run()
	}
}

func (q *queue) run() {
	for {
		q.mutex.Lock()
		if len(q.waiting) == 0 {
			q.running = false
			q.mutex.Unlock()
			return
		}
		work := q.waiting[0]
		q.waiting = q.waiting[1:]
		q.mutex.Unlock()
		work()
	}
}

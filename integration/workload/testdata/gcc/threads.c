#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

static atomic_int count;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int guarded;

static void *work(void *arg)
{
	(void)arg;
	for (int i = 0; i < 10000; i++) {
		atomic_fetch_add(&count, 1);
		pthread_mutex_lock(&mutex);
		guarded++;
		pthread_mutex_unlock(&mutex);
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[8];

	for (int i = 0; i < 8; i++)
		if (pthread_create(&threads[i], NULL, work, NULL))
			return 1;
	for (int i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
	printf("%d %d\n", count, guarded);
	return count != 80000 || guarded != 80000;
}

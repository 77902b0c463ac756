import asyncio, signal, time


async def main():
    p = await asyncio.create_subprocess_exec("cat", stdin=-1, stdout=-1)
    assert (await p.communicate(b"through a pipe"))[0] == b"through a pipe"
    await asyncio.gather(*(asyncio.to_thread(time.sleep, 0.05) for _ in range(8)))
    got = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, got.set)
    signal.raise_signal(signal.SIGUSR1)
    await asyncio.wait_for(got.wait(), 5)


asyncio.run(main())

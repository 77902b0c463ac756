one=$(setarch -R sh -c 'grep stack /proc/self/maps')
[ "$one" = "$(setarch -R sh -c 'grep stack /proc/self/maps')" ]

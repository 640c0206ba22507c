from tests.lab.big_guest.command import main

main()

from tests.lab.big_guest.command import main
from tests.lab.xen_guest.dom0 import XEN

main(XEN)
